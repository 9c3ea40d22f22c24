"""tools/predict_measured on runs whose prices are known: simulated with others than the scenario says, or run on threads."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))

GPT = """name: GPT-2 on one GPU
schemes: [dp, zero3]
world: 1
model: {preset: gpt2, layers: 3}
batch: {micro: 4, sequence: 512}
precision: {param: bf16, grad: bf16}
units: layer
streams: 3
steps: 4
hazards: off
numerics: off
record: {ranks: 1, spans: on}
"""
MLP = """schemes: [dp, zero2]
world: 2
model: {kind: mlp, widths: [8, 16, 4], activation: tanh, loss: mse}
batch: {micro: 4}
units: layer
streams: 3
steps: 3
backend: threads
"""
OTHER_PRICES = "prices={gemm_efficiency: 0.45, memory_efficiency: 0.7, kernel_seconds: 3us, attention_64_flops: 200Tf}"


def validate_on_gpu():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("validate_on_gpu", str(ROOT / "tools/validate_on_gpu"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("validate_on_gpu", loader))
    loader.exec_module(module)
    return module


class PredictMeasuredCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def measure(self, name, scenario, *settings):
        """A run as tools/validate_on_gpu leaves it; its scenario does not know the settings."""
        runs = self.path / "runs"
        runs.mkdir(exist_ok=True)
        (runs / f"{name}.yaml").write_text(scenario)
        words = [word for setting in settings for word in ("--set", setting)]
        whole = self.path / "whole" / name
        command = [PROGRAM, "run", runs / f"{name}.yaml", "-o", whole, "--quiet", *words]
        subprocess.run(command, check=True, capture_output=True)
        (whole / "scenario.yaml").write_text(scenario)
        summary = whole / "summary.json"
        summary.write_text(summary.read_text().replace('"backend": "simgrid"', '"backend": "cuda"'))
        validate_on_gpu().keep_what_is_read(whole, runs / name)

    def predict(self, *options):
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/predict_measured", self.path, "--gpu", "h200", "--program",
                               PROGRAM, *options], capture_output=True, text=True, check=False)
        place = self.path / "predicted.json"
        return done, json.loads(place.read_text()) if place.exists() else None

    def test_a_calibrated_step_is_the_measured_one_and_bytes_are_the_same(self):
        self.measure("gpt", GPT, "platform={gpus_per_node: 1, gpu: h200}", OTHER_PRICES)
        self.measure("parity", MLP)
        done, predicted = self.predict("--max-error", "1%")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for scheme in predicted["gpt"]["agreement"]:
            step = scheme["rows"][0]
            self.assertLess(step["error"], -0.1)  # the measured GPU is slower than the scenario says
            self.assertLess(abs(predicted["gpt"]["calibrated"][scheme["scheme"]]["step"]["error"]), 0.01)
        for run in predicted.values():
            for scheme in run["agreement"]:
                memory = [row for row in scheme["rows"] if row["part"] == "memory" and row["figure"] in ("resident", "total peak")]
                self.assertEqual([row["error"] for row in memory], [0, 0])
        self.assertEqual(predicted["parity"]["calibrated"], {})
        self.assertIn("as simulated", done.stdout)
        done, _ = self.predict("--max-error", "0")
        self.assertEqual(done.returncode, 1)
        for wrong in ("nan", "-1", "1e999%", "%", "few", "5", "101%"):
            done, _ = self.predict("--max-error", wrong)
            self.assertEqual(done.returncode, 2, wrong)

    def test_other_bytes_are_a_contradiction(self):
        self.measure("parity", MLP)
        place = self.path / "runs/parity/summary.json"
        summary = json.loads(place.read_text())
        summary["results"][1]["bytes_sent_per_rank_per_step"] += 4
        place.write_text(json.dumps(summary))
        done, predicted = self.predict()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([len(scheme["contradictions"]) for scheme in predicted["parity"]["agreement"]], [0, 1])

    def test_a_folder_without_runs_is_refused_in_one_line(self):
        done, predicted = self.predict()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn("has no runs; name the folder that tools/validate_on_gpu wrote", done.stderr)
        self.assertIsNone(predicted)


if __name__ == "__main__":
    unittest.main()
