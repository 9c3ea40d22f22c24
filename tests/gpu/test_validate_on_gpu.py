"""What tools/validate_on_gpu refuses, and where it writes, on a machine without a GPU."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))


class ValidateOnGpuCase(unittest.TestCase):
    @staticmethod
    def tool():
        loader = importlib.machinery.SourceFileLoader("validate_on_gpu", str(ROOT / "tools/validate_on_gpu"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("validate_on_gpu", loader))
        loader.exec_module(module)
        return module

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

    def test_what_goes_wrong_in_one_phase_is_a_failed_check_and_the_next_one_begins(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = self.tool()
            session = tool.Session(argparse.Namespace(minutes=1, output=folder, dry_run=False))
            self.addCleanup(session.log.close)
            session.phase("one", lambda _: {}["nothing"])
            session.phase("two", lambda s: s.check("two", True, "done"))
            checks = json.loads((pathlib.Path(folder) / "measured.json").read_text())["checks"]
        self.assertEqual(checks["one"], {"passed": False, "what": "KeyError: 'nothing'"})
        self.assertEqual(checks["two"], {"passed": True, "what": "done"})

    def test_a_command_that_takes_too_long_is_interrupted_before_it_is_killed_and_its_output_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            session = self.tool().Session(argparse.Namespace(minutes=10, output=folder, dry_run=False))
            self.addCleanup(session.log.close)
            # A shell's background jobs ignore SIGINT; env gives it back.
            program = "trap 'echo kept; exit' INT; echo begun; while :; do sleep 0.05; done"
            code, output = session.call(["env", "--default-signal=INT", "sh", "-c", program], 1 / 12)
            self.assertEqual(code, 124)
            self.assertRegex(output, "took longer than 5 s\nbegun\nkept\n")

    def test_a_machine_without_python_runs_the_same_by_a_script_for_the_shell(self):
        with tempfile.TemporaryDirectory() as folder:
            carried, out, tool = pathlib.Path(folder) / "carried", pathlib.Path(folder) / "out", self.tool()
            (carried / "bin").mkdir(parents=True)
            shutil.copy(PROGRAM, carried / "bin/shardsim")
            tool.RUNS[:] = [tool.Run("small", tool.MLP, ["backend=threads", "steps=2", "schemes=[dp]"], 1)]
            tool.write_script(carried)
            done = subprocess.run(["sh", carried / "measure.sh", out], env={"PATH": "/usr/bin:/bin"}, capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.stdout, done.stderr), ("", ""))
            self.assertEqual((out / "runs/small.txt").read_text(), "exit code 0\n")
            self.assertEqual({file.name for file in (out / "runs/small").rglob("*") if file.is_file()} - tool.KEPT, set())
            self.assertTrue((out / "runs/small/summary.json").exists())

    def test_a_folder_is_meant_from_where_the_command_is_given(self):
        _, output = self.dry_run("--program", PROGRAM, "--tests", PROGRAM)
        self.assertNotIn("there is no such file", output)
        self.assertIn("dry run: nothing was measured", output)
        self.assertEqual(self.written, ["log.txt", "measured.json", "runs"])


if __name__ == "__main__":
    unittest.main()
