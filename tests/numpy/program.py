"""What the comparisons with numpy share: a folder of their own, the program run there, its losses and its parameters."""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))


class ProgramCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def results_of(self, scenario):
        """({scheme: losses}, {scheme: final parameters}) of a scenario's text."""
        (self.path / "run.yaml").write_text(scenario)
        out = self.path / "results"
        done = subprocess.run([PROGRAM, "run", str(self.path / "run.yaml"), "-o", str(out)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = {}
        with open(out / "steps.csv", newline="") as lines:
            for row in csv.DictReader(lines):
                losses.setdefault(row["scheme"], []).append(float(row["loss"]))
        return losses, {scheme: np.load(out / scheme / "theta_final.npy") for scheme in losses}
