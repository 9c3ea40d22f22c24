"""What tools/validate_on_gpu refuses, and where it writes, on a machine without a GPU."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))


class ValidateOnGpuCase(unittest.TestCase):
    def dry_run(self, *options):
        """(exit code, output) of a dry run from a folder of its own, whose results lie in its folder `out`."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/validate_on_gpu", "--dry-run", "-o", "out", *options],
                                  cwd=folder, capture_output=True, text=True, check=False)
            self.written = sorted(path.name for path in pathlib.Path(folder).glob("out/*"))
            return done.returncode, done.stdout + done.stderr

    def test_a_program_that_was_named_and_does_not_start_is_no_reason_to_build_one(self):
        code, output = self.dry_run("--program", "/nowhere/shardsim")
        self.assertEqual(code, 2, output)
        self.assertIn("--program /nowhere/shardsim: does not start", output)
        self.assertNotIn("building", output)

    def test_no_time_is_refused(self):
        code, output = self.dry_run("--program", PROGRAM, "--minutes", "-1")
        self.assertEqual(code, 2, output)
        self.assertIn("--minutes -1: write a number above 0", output)
        self.assertEqual(self.written, [])

    def test_a_folder_is_meant_from_where_the_command_is_given(self):
        _, output = self.dry_run("--program", PROGRAM, "--tests", PROGRAM)
        self.assertNotIn("there is no such file", output)
        self.assertIn("dry run: nothing was measured", output)
        self.assertEqual(self.written, ["log.txt", "measured.json", "runs"])


if __name__ == "__main__":
    unittest.main()
