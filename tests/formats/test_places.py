"""Where results go when things go wrong: a full disk, a place that cannot be written, an interrupt; and SimGrid's own trace."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import runs

PLAIN_LINKS = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="box" prefix="gpu" suffix="" radical="0-3" speed="1Gf" bw="50GBps" lat="1us" sharing_policy="SHARED">
    <prop id="gpu" value="h100-sxm"/>
  </cluster>
</platform>
"""


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
        no_numbers = ("--set", "numerics=off")
        for most, options in ((60_000, ()), (20_000, no_numbers), (200_000, no_numbers), (30_000, ("--gzip", *no_numbers))):
            said = self.run_limited(most, *options)
            self.assertRegex(said, r"^\S*/out: cannot be written: File too large\n$", most)
            self.assertEqual(self.names(), ["s.yaml"])

    def test_a_full_disk_leaves_the_earlier_results(self):
        out, _ = runs.run(self.folder, runs.TEXTBOOK)
        before = {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}
        self.run_limited(60_000, "--set", "steps=5")
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
        command = [runs.PROGRAM, "run", str(file), "-o", f"{self.folder}/out", "--set", "schemes=[zero3]", "--ranks", "1"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        time.sleep(3)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate()
        self.assertEqual(child.returncode, 130, said)
        out = pathlib.Path(self.folder) / "out"
        result, = runs.results(out)
        self.assertTrue(result["interrupted"])
        self.assertGreater(result["steps"], 0)
        self.assertEqual(len(runs.rows(out / "steps.csv")), result["steps"])
        trace = runs.json.loads((out / "zero3/trace.json").read_text(encoding="utf-8"))
        marks = [e for e in trace["traceEvents"] if e.get("cat") == "gpu_user_annotation"]
        self.assertEqual(len(marks), result["steps"])
        self.assertEqual(max(int(row["held_bytes"]) for row in runs.rows(out / "zero3/memory.csv")), result["peak_bytes"])

    def test_simgrid_writes_its_own_trace_when_asked(self):
        paje = pathlib.Path(self.folder) / "run.paje"
        platform = pathlib.Path(self.folder) / "gpus.xml"
        platform.write_text(PLAIN_LINKS, encoding="utf-8")
        scenario = ("--set", f"platform={platform}", "--set", "schemes=[zero3]")
        options = ("--cfg=tracing:yes", f"--cfg=tracing/filename:{paje}", "--cfg=tracing/uncategorized:yes",
                   "--cfg=tracing/platform/topology:no")
        out, _ = runs.run(self.folder, runs.TEXTBOOK, *scenario, *options)
        text = paje.read_text(encoding="utf-8")
        self.assertIn("%EventDef PajeDefineContainerType", text)
        links = re.findall(r'^6 \S+ (\d+) \d+ \d+ "box_link_\d"$', text, re.MULTILINE)  # PajeCreateContainer
        capacity, = re.findall(r"^1 (\d+) \d+ bandwidth ", text, re.MULTILINE)  # PajeDefineVariableType
        known = re.findall(rf"^8 \S+ {capacity} (\d+) 50000000000", text, re.MULTILINE)  # PajeSetVariable
        self.assertEqual(len(links), 4)
        self.assertEqual(known, links)
        seen = runs.results(out)  # the trace changes nothing
        out, _ = runs.run(self.folder, runs.TEXTBOOK, *scenario)
        self.assertEqual(seen, runs.results(out))

    def test_what_simgrid_would_take_beside_tracing_is_refused(self):
        one = ("--set", "schemes=[zero3]")
        for options, words in (((*one, "--cfg=network/model:LV08"),
                                "SimGrid's models are set by shardsim; what may be set is tracing"),
                               (("--cfg=tracing:yes",), "each of 5 schemes would write SimGrid's one file"),
                               ((*one, "--backend", "threads", "--cfg=tracing:yes"), "has no SimGrid"),
                               ((*one, "--cfg=tracing/nonsense:yes"), "Bad config key: tracing/nonsense"),
                               ((*one, "--cfg=tracing:yes", "--cfg=tracing/uncategorized:yes",
                                 f"--cfg=tracing/filename:{os.devnull}"),
                                "add --cfg=tracing/platform/topology:no")):
            _, said = runs.run(self.folder, runs.TEXTBOOK, *options, code=2)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertEqual(self.names(), ["s.yaml"])


if __name__ == "__main__":
    unittest.main()
