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
import tarfile
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import runs_on_gpu

PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))


def small(name, part, minutes=1, *settings):
    return runs_on_gpu.Run(name, part, runs_on_gpu.MLP, ["backend=threads", "steps=2", "schemes=[dp]", *settings], minutes)


class ValidateOnGpuCase(unittest.TestCase):
    @staticmethod
    def tool():
        loader = importlib.machinery.SourceFileLoader("validate_on_gpu", str(ROOT / "tools/validate_on_gpu"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("validate_on_gpu", loader))
        loader.exec_module(module)
        return module

    def session(self, tool, folder, minutes=10, **options):
        session = tool.Session(argparse.Namespace(minutes=minutes, output=folder, dry_run=False, **options))
        self.addCleanup(session.log.close)
        return session

    @staticmethod
    def packages_in(home):
        """The folder of cuBLASLt that a Python's packages have there."""
        place = pathlib.Path(home) / ".local/lib/python3.11/site-packages/nvidia/cublas/lib"
        place.mkdir(parents=True)
        (place / "libcublasLt.so.12").touch()
        return place

    def packed(self, file, tool):
        """The runs in an archive, whose files are all such as are read."""
        with tarfile.open(file) as archive:
            names = [pathlib.Path(each.name) for each in archive if each.isfile()]
        self.assertEqual({name.name for name in names} - tool.KEPT, set())
        self.assertEqual({name.parts[0] for name in names}, {"runs"})
        return {name.parts[1] for name in names if name.name == "summary.json"}

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
            session = self.session(tool, folder, minutes=1)
            session.phase("one", lambda _: {}["nothing"])
            session.phase("two", lambda s: s.check("two", True, "done"))
            checks = json.loads((pathlib.Path(folder) / "measured.json").read_text())["checks"]
        self.assertEqual(checks["one"], {"passed": False, "what": "KeyError: 'nothing'"})
        self.assertEqual(checks["two"], {"passed": True, "what": "done"})

    def test_a_command_that_takes_too_long_is_interrupted_before_it_is_killed_and_its_output_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            session = self.session(self.tool(), folder)
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
            (carried / "bin/gpu").write_text("#!/bin/sh\necho $LD_LIBRARY_PATH\n")
            (carried / "bin/gpu").chmod(0o755)
            libraries = self.packages_in(folder)
            tool.RUNS = [small("one", "few"), small("two", "few"), small("three", "more")]
            tool.write_script(carried)
            done = subprocess.run(["sh", carried / "measure.sh", out], env={"PATH": "/usr/bin:/bin", "HOME": folder},
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.stdout, done.stderr), ("", ""))
            self.assertEqual(sorted(file.name for file in out.iterdir()), ["log.txt", "runs_few.tar.gz", "runs_more.tar.gz"])
            log = (out / "log.txt").read_text()
            self.assertEqual(log.count("exit code 0\n"), 4)  # the card's test and the runs
            self.assertIn(" seconds left: nvidia-smi\n", log)
            self.assertIn(f":{libraries}:\n", log)
            self.assertEqual(self.packed(out / "runs_few.tar.gz", tool), {"one", "two"})
            self.assertEqual(self.packed(out / "runs_more.tar.gz", tool), {"three"})

    def test_results_are_a_few_files_after_every_run_and_are_compared_as_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            tool, place = self.tool(), pathlib.Path(folder)
            session = self.session(tool, folder)
            session.phase("one", tool.carry_out, PROGRAM, small("one", "few"))
            self.assertEqual(self.packed(place / "runs_few.tar.gz", tool), {"one"})
            session.phase("two", tool.carry_out, PROGRAM, small("two", "few"))
            session.phase("three", tool.carry_out, PROGRAM, small("three", "more"))
            self.assertEqual(self.packed(place / "runs_few.tar.gz", tool), {"one", "two"})
            self.assertEqual(sorted(file.name for file in place.iterdir()),
                             ["log.txt", "measured.json", "runs_few.tar.gz", "runs_more.tar.gz"])
            self.assertRegex((place / "log.txt").read_text(), r"three: \d+\.\d minutes left\n")
            predict = [sys.executable, "-B", ROOT / "tools/predict_measured", folder, "--gpu", "h200", "--program", PROGRAM]
            done = subprocess.run(predict, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(set(json.loads((place / "predicted.json").read_text())), {"one", "two", "three"})
            self.assertEqual(set(place.glob("runs")), set())
            (place / "runs_few.tar.gz").write_bytes(b"none")
            done = subprocess.run(predict, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn("runs_few.tar.gz: cannot be unpacked: ", done.stderr)

    def test_what_a_run_had_when_its_time_was_over_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            tool, whole, program = self.tool(), pathlib.Path(folder) / "whole", pathlib.Path(folder) / "program"
            subprocess.run([PROGRAM, "run", self.written_scenario(folder), "--quiet", "-o", whole], check=True)
            program.write_text("#!/usr/bin/env -S --default-signal=INT sh\n"
                               f'trap \'cp -r {whole} "$5"; exit 130\' INT; while :; do sleep 0.05; done\n')
            program.chmod(0o755)
            session = self.session(tool, pathlib.Path(folder) / "out")
            session.phase("cut", tool.carry_out, program, small("cut", "few", 1 / 20))
            self.assertFalse(session.found["checks"]["cut"]["passed"])
            self.assertEqual(session.found["runs"]["cut"][0]["scheme"], "dp")
            self.assertEqual(self.packed(session.folder / "runs_few.tar.gz", tool), {"cut"})

    @staticmethod
    def written_scenario(folder):
        file = pathlib.Path(folder) / "s.yaml"
        file.write_text(runs_on_gpu.MLP.replace("steps: 50", "steps: 2\nbackend: threads").replace("[dp, zero1", "[dp] #"))
        return file

    def test_long_runs_have_one_scheme_each_and_what_matters_most_comes_first(self):
        names = [run.name for run in runs_on_gpu.RUNS]
        self.assertEqual(names[:2], ["gpt2_1_rank", "gpt2_large_1_rank"])
        self.assertEqual(names[-1], "gpt2_vocab_50257_1_rank")
        self.assertEqual(len(set(names)), len(names))
        for run in runs_on_gpu.RUNS:
            if run.text != runs_on_gpu.MLP:
                schemes = [setting for setting in run.settings if setting.startswith("schemes=")]
                self.assertEqual([each.count(",") for each in schemes], [0] * ("8_ranks" in run.name))

    def test_a_build_here_has_a_limit_and_leaves_time_for_what_matters_most(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = self.tool()
            tool.ROOT = pathlib.Path(folder)
            cmake = tool.ROOT / "cmake"
            cmake.write_text("#!/bin/sh\necho cmake was called\n")
            cmake.chmod(0o755)
            session = self.session(tool, tool.ROOT / "out", carried=folder, program=None, tests=None)
            session.environment["PATH"] = folder + ":" + os.environ["PATH"]
            build = tool.ROOT / "build/cuda"
            self.assertEqual(tool.find_programs(session), (build / "shardsim", build / "tests/gpu", tool.AFTER_A_BUILD))
            log = (session.folder / "log.txt").read_text()
            self.assertEqual(log.count("cmake was called"), 2)
            self.assertIn("-D SHARDSIM_WARNINGS_ARE_ERRORS=OFF", log)
            cmake.write_text("#!/bin/sh\nexec sleep 600\n")
            tool.BUILD_MINUTES = 1 / 60
            self.assertEqual(tool.find_programs(session), (None, None, 0))
            self.assertIn("building failed: took longer than 1 s", (session.folder / "log.txt").read_text())

    def test_libraries_are_looked_for_where_packages_of_any_python_lie(self):
        with tempfile.TemporaryDirectory() as home, unittest.mock.patch.dict(os.environ, HOME=home):
            self.assertIn(str(self.packages_in(home)), self.tool().library_folders())

    def test_a_folder_is_meant_from_where_the_command_is_given(self):
        _, output = self.dry_run("--program", PROGRAM, "--tests", PROGRAM)
        self.assertNotIn("there is no such file", output)
        self.assertIn("dry run: nothing was measured", output)
        self.assertEqual(self.written, ["log.txt", "measured.json"])


if __name__ == "__main__":
    unittest.main()
