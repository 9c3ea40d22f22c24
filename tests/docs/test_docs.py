# The pages of docs/ and the comments of scenarios/: every command in them runs, and every file that they point at is there then.
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

    def test_every_variant_that_a_scenario_suggests_runs_as_its_comments_say(self):
        tried = 0
        for scenario in sorted((ROOT / "scenarios").glob("*.yaml")):
            lines = scenario.read_text(encoding="utf-8").splitlines()
            comments = " ".join(line[2:] for line in lines if line.startswith("# "))
            together = re.findall(r"(?:--set (?:'[^']+'|[^\s),]+)\s*)+", comments)
            settings = [[word.strip("'").rstrip(".") for word in re.findall(r"--set ('[^']+'|[^\s),]+)", words)]
                        for words in together]
            besides = ["hazards=off"] + (["expect={}"] if ["expect={}"] in settings else [])
            for words in settings:
                if words == ["expect={}"]:
                    continue
                tried += 1
                arguments = [argument for word in words + besides for argument in ("--set", word)]
                with self.subTest(scenario=scenario.name, settings=words), tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([PROGRAM, "run", scenario, "--quiet", "-o", pathlib.Path(folder) / "out", *arguments],
                                          capture_output=True, text=True)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreaterEqual(tried, 6)

    def test_every_command_of_the_lesson_runs(self):
        self.run_page("lesson.md")

    def test_every_command_of_the_what_if_page_runs(self):
        self.run_page("what-if.md")


if __name__ == "__main__":
    unittest.main()
