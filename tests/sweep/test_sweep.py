# `shardsim sweep` from outside: its rows are those of single runs, whoever carries them out, in whatever order, and however often
# some of them are killed.
import csv
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["SHARDSIM_PROGRAM"]
SCENARIO = """schemes: [dp, zero3]
platform: ideal-8
world: 8
model: {kind: mlp, widths: [32, 32, 32, 32]}
batch: {micro: 16}
steps: 20
"""
GRID = ["--grid", "units=whole,layer,{bucket: 20KB}", "--grid", "batch.micro,batch.accumulation=1:8,2:4,8:1",
        "--grid", "streams=1,3"]
RUNS = 36  # of the grid, with two schemes each


class Sweep(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "s.yaml").write_text(SCENARIO, encoding="utf-8")

    def command(self, name, *more):
        return [PROGRAM, "sweep", "s.yaml", "-o", name, *GRID, *more]

    def done(self, command, code=0):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def csv(self, name):
        return (self.folder / name / "sweep.csv").read_bytes()

    def whole(self):
        """The CSV file of a sweep that nothing happens to."""
        self.done(self.command("whole"))
        return self.csv("whole")

    def lines(self, name):
        journal = self.folder / name / "journal"
        return journal.read_bytes().splitlines(keepends=True) if journal.exists() else []

    def started(self, name, command):
        """The process of a sweep, some of whose runs are done."""
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: process.stdout.close() if process.poll() is not None else process.kill())
        while len(self.lines(name)) < 3 and process.poll() is None:
            time.sleep(0.002)
        return process

    def children(self, parent):
        found = []
        for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(status.parent.name))
            except OSError:  # it has ended
                pass
        return found

    def mpirun(self, *options):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed (Debian: openmpi-bin)")
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *as_root, "--oversubscribe", *options, "-n", "3"]

    def assert_resumes(self, name, whole):
        """What is in the journal stays there, the rest is done, and nothing is done twice."""
        before = [line for line in self.lines(name) if line.endswith(b"\n")]
        self.assertGreater(len(before), 2)
        self.done(self.command(name))
        after = self.lines(name)
        self.assertEqual(after[: len(before)], before)
        self.assertEqual(len({line[:16] for line in after}), RUNS)
        self.assertEqual(len(after), RUNS)
        self.assertEqual(self.csv(name), whole)

    def test_rows_are_those_of_single_runs(self):
        rows = list(csv.DictReader(self.whole().decode().splitlines()))
        self.assertEqual(len(rows), RUNS)
        for row in rows[::5]:
            settings = [word for key in ("units", "batch.micro", "batch.accumulation", "streams", "schemes")
                        for word in ("--set", f"{key}={row[key] if key != 'schemes' else row['scheme']}")]
            single = json.loads(self.done([PROGRAM, "run", "s.yaml", "--json", *settings]).stdout)["results"][0]
            self.assertEqual((row["scheme"], row["status"]), (single["scheme"], "ok" if single["fits"] else "does_not_fit"))
            figures = list(row)[list(row).index("parameters"):]
            self.assertEqual(len(figures), 16)
            for figure in set(figures) - {"gpu_needed_bytes", "model_flops_utilisation"}:
                self.assertEqual(float(row[figure]) if row[figure] else None, single[figure], (row, figure))
            self.assertEqual(float(row["gpu_needed_bytes"]), single["reserved_bytes"] + (single["outside_bytes"] or 0))

    def test_the_number_of_jobs_changes_nothing(self):
        self.done(self.command("one", "--jobs", "1"))
        self.done(self.command("three", "--jobs", "3"))
        self.assertEqual(self.csv("one"), self.whole())
        self.assertEqual(self.csv("three"), self.csv("one"))

    def test_a_sweep_that_is_killed_goes_on_where_it_was(self):
        process = self.started("killed", self.command("killed", "--jobs", "1"))
        process.kill()
        process.wait()
        self.assertLess(len(self.lines("killed")), RUNS)
        self.assertFalse((self.folder / "killed" / "sweep.csv").exists())
        self.assert_resumes("killed", self.whole())

    def test_a_sweep_that_is_interrupted_says_so_and_goes_on_where_it_was(self):
        process = self.started("stopped", self.command("stopped", "--jobs", "1"))
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 130, output)
        self.assertRegex(output, rf"^interrupted; \d+ of {RUNS} runs are done, and the same command does the rest\n$")
        self.assert_resumes("stopped", self.whole())

    def test_a_line_that_was_not_finished_does_not_count(self):
        whole = self.whole()
        lines = self.lines("whole")
        (self.folder / "torn").mkdir()
        (self.folder / "torn" / "journal").write_bytes(b"".join(lines[:7]) + lines[7][:40])
        self.done(self.command("torn"))
        self.assertEqual(self.lines("torn")[:7], lines[:7])
        self.assertEqual(len(self.lines("torn")), RUNS)
        self.assertEqual(self.csv("torn"), whole)

    def test_a_full_disk_is_one_line_and_the_rest_is_done_when_there_is_room(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        done = subprocess.run(self.command("full", "--jobs", "2"), cwd=self.folder, capture_output=True, text=True,
                              preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^full/journal: cannot be written: File too large; \d+ of 36 runs are done, and the same "
                                      r"command does the rest\n$")
        self.done(self.command("full"))
        self.assertEqual(self.csv("full"), self.whole())

    def test_a_journal_that_is_no_plain_file_is_refused(self):
        (self.folder / "device").mkdir()
        os.symlink("/dev/zero", self.folder / "device/journal")
        done = self.done(self.command("device"), code=2)
        self.assertEqual(done.stderr, "device/journal: is no plain file; name another folder with -o\n")

    def test_where_nothing_fits_the_nearest_is_named(self):
        done = self.done(self.command("small", "--fits", "--set", "prices={memory: 1KiB}", "--set", "schemes=[dp]"))
        self.assertRegex(done.stdout, r"Best by step_seconds, of those that fit:\n  none; the nearest \(dp, units .*\) needs ")

    def test_a_worker_that_is_killed_loses_nothing_but_the_run_at_hand(self):
        process = self.started("worker", self.command("worker", "--jobs", "2"))
        workers = self.children(process.pid)
        self.assertEqual(len(workers), 2)
        os.kill(workers[0], signal.SIGKILL)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(len(self.lines("worker")), RUNS)
        self.assertEqual(self.csv("worker"), self.whole())

    def test_a_run_that_is_killed_is_tried_again(self):
        process = self.started("run", self.command("run", "--jobs", "1"))
        while b"failed," not in b"".join(self.lines("run")) and process.poll() is None:  # it may end before it is killed
            for run in [run for worker in self.children(process.pid) for run in self.children(worker)]:
                os.kill(run, signal.SIGKILL)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertGreater(len(self.lines("run")), RUNS)
        self.assertEqual(self.csv("run"), self.whole())

    def test_a_larger_grid_runs_only_what_is_new(self):
        self.done([PROGRAM, "sweep", "s.yaml", "-o", "grown", "--grid", "streams=1,2"])
        before = self.lines("grown")
        self.assertEqual(len(before), 4)
        self.done([PROGRAM, "sweep", "s.yaml", "-o", "grown", "--grid", "streams=1,2,3"])
        self.assertEqual(self.lines("grown")[:4], before)
        self.assertEqual(len(self.lines("grown")), 6)
        (self.folder / "s.yaml").write_text(SCENARIO.replace("steps: 20", "steps: 19"), encoding="utf-8")
        self.done([PROGRAM, "sweep", "s.yaml", "-o", "grown", "--grid", "streams=1"])
        self.assertEqual(len(self.lines("grown")), 8)

    def test_ranks_under_mpirun_share_the_work_and_the_first_one_speaks(self):
        done = self.done([*self.mpirun(), *self.command("ranks")])
        self.assertEqual(done.stdout.count("Best by step_seconds"), 1, done.stdout)
        self.assertEqual(len(self.lines("ranks")), RUNS)
        self.assertEqual(self.csv("ranks"), self.whole())

    def test_processes_that_srun_started_share_the_work_and_the_first_one_speaks(self):
        tasks = [subprocess.Popen(self.command("tasks"), cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                  env=os.environ | {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2"})
                 for rank in (0, 1)]
        outputs = [task.communicate()[0] for task in tasks]
        self.assertEqual([task.returncode for task in tasks], [0, 0])
        self.assertIn("Best by step_seconds", outputs[0])
        self.assertEqual(outputs[1], "")
        self.assertEqual(len(self.lines("tasks")), RUNS)
        self.assertEqual(self.csv("tasks"), self.whole())

    def test_a_rank_that_is_killed_loses_only_its_run_where_mpirun_goes_on(self):
        process = self.started("lost", [*self.mpirun("--enable-recovery"), *self.command("lost")])
        os.kill(self.rank_of(process, 1), signal.SIGKILL)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(len(self.lines("lost")), RUNS)
        self.assertEqual(self.csv("lost"), self.whole())

    def test_a_job_that_mpirun_ends_because_of_a_rank_goes_on_where_it_was(self):
        process = self.started("ended", [*self.mpirun(), *self.command("ended")])
        os.kill(self.rank_of(process, 1), signal.SIGKILL)
        output = process.communicate()[0]
        self.assertNotEqual(process.returncode, 0, output)
        self.assert_resumes("ended", self.whole())

    def rank_of(self, mpirun, rank):
        for child in self.children(mpirun.pid):
            if f"OMPI_COMM_WORLD_RANK={rank}\0" in pathlib.Path(f"/proc/{child}/environ").read_text():
                return child
        self.fail(f"there is no rank {rank}")

    def test_a_bad_grid_is_refused_under_mpirun_before_anything_runs(self):
        done = self.done([*self.mpirun(), *self.command("never", "--grid", "strems=1,2")], code=2)
        self.assertIn("--grid strems: unknown key", done.stderr)
        self.assertFalse((self.folder / "never").exists())


if __name__ == "__main__":
    unittest.main()
