# The pages of docs/: every command in them runs, in order, and every file that they point at is there afterwards.
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))


class Docs(unittest.TestCase):
    def run_page(self, name):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        commands = re.findall(r"^\$ build/release/shardsim (.*)$", text, re.M)
        self.assertTrue(commands)
        with tempfile.TemporaryDirectory() as folder:
            for shared in ("scenarios", "platforms", "tables"):
                os.symlink(ROOT / shared, pathlib.Path(folder) / shared)
            for command in commands:
                done = subprocess.run(["bash", "-c", f"'{PROGRAM}' {command}"], cwd=folder, capture_output=True, text=True,
                                      env={**os.environ, "PWD": folder})
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
            for path in re.findall(r"`((?:figures|results)/[\w./]+\.\w+)`", text):
                self.assertTrue((pathlib.Path(folder) / path).is_file(), f"{name} points at {path}, which no command makes")

    def test_every_command_of_the_lesson_runs(self):
        self.run_page("lesson.md")

    def test_every_command_of_the_what_if_page_runs(self):
        self.run_page("what-if.md")


if __name__ == "__main__":
    unittest.main()
