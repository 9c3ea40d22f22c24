"""Where results go when things go wrong: a full disk, a place that cannot be written, an interrupt; and SimGrid's own trace."""
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import runs


class Places(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def names(self):
        return sorted(os.listdir(self.folder))

    def run_limited(self, most_bytes, *options):
        """As on a disk that has no room for a file of more than that."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        return runs.run(self.folder, runs.TEXTBOOK, *options, code=2, preexec_fn=limit)[1]

    def test_a_full_disk_is_one_line_and_leaves_nothing(self):
        for most, options in ((100, ()), (20_000, ()), (60_000, ()), (2_000, ("--gzip", "--set", "numerics=off"))):
            said = self.run_limited(most, *options)
            self.assertRegex(said, r"^\S*/out: cannot be written: File too large\n$", most)
            self.assertEqual(self.names(), ["s.yaml"])

    def test_a_full_disk_leaves_the_earlier_results(self):
        out, _ = runs.run(self.folder, runs.TEXTBOOK)
        before = {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}
        self.run_limited(20_000, "--set", "steps=5")
        self.assertEqual({f: f.read_bytes() for f in out.rglob("*") if f.is_file()}, before)
        self.assertEqual(self.names(), ["out", "s.yaml"])

    def test_a_place_that_cannot_be_written_is_one_line(self):
        (pathlib.Path(self.folder) / "out").write_text("mine", encoding="utf-8")
        _, said = runs.run(self.folder, runs.TEXTBOOK, code=2)
        self.assertRegex(said, r"^\S*/out: is a file; choose another folder with -o\n$")
        self.assertEqual(self.names(), ["out", "s.yaml"])

    def test_an_interrupt_keeps_the_steps_that_are_finished(self):
        file = pathlib.Path(self.folder) / "s.yaml"
        file.write_text(runs.TEXTBOOK.replace("steps: 3", "steps: 1000000"), encoding="utf-8")
        child = subprocess.Popen([runs.PROGRAM, "run", str(file), "-o", f"{self.folder}/out", "--set", "schemes=[zero3]", "--ranks", "1"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate()
        self.assertEqual(child.returncode, 130, said)
        out = pathlib.Path(self.folder) / "out"
        result, = runs.results(out)
        self.assertTrue(result["interrupted"])
        self.assertGreater(result["steps"], 0)
        self.assertEqual(len(runs.rows(out / "steps.csv")), result["steps"])
        trace = runs.json.loads((out / "zero3/trace.json").read_text(encoding="utf-8"))
        marks = [e for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(len(marks), result["steps"])
        self.assertEqual(max(int(row["held_bytes"]) for row in runs.rows(out / "zero3/memory.csv")), result["peak_bytes"])

    def test_simgrid_writes_its_own_trace_when_asked(self):
        paje = pathlib.Path(self.folder) / "run.paje"
        options = ("--set", "schemes=[zero3]", "--cfg=tracing:yes", f"--cfg=tracing/filename:{paje}", "--cfg=tracing/uncategorized:yes")
        out, _ = runs.run(self.folder, runs.TEXTBOOK, *options)
        text = paje.read_text(encoding="utf-8")
        self.assertIn("%EventDef PajeDefineContainerType", text)
        variables = [line for line in text.splitlines() if line.startswith("8 ")]  # PajeSetVariable
        self.assertGreater(len(variables), 100)
        self.assertIn("HOST", text)
        # What it looks at does not change.
        plain = runs.results(out)
        out, _ = runs.run(self.folder, runs.TEXTBOOK, *options[:2])
        self.assertEqual(plain, runs.results(out))

    def test_what_simgrid_would_take_beside_tracing_is_refused(self):
        one = ("--set", "schemes=[zero3]")
        for options, words in (((*one, "--cfg=network/model:LV08"), "SimGrid's models are set by shardsim; what may be set is tracing"),
                               (("--cfg=tracing:yes",), "each of 5 schemes would write SimGrid's one file"),
                               ((*one, "--backend", "threads", "--cfg=tracing:yes"), "has no SimGrid"),
                               ((*one, "--cfg=tracing/nonsense:yes"), "tracing/nonsense")):
            _, said = runs.run(self.folder, runs.TEXTBOOK, *options, code=2)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertEqual(self.names(), ["s.yaml"])


if __name__ == "__main__":
    unittest.main()
