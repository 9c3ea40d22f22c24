# What the tests of a results folder share: two scenarios, run once per test process, and their files as Python sees them.
import csv
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))

# Every collective, three streams, gradients over two micro-batches, a norm that travels as control bytes.
TEXTBOOK = """
schemes: [dp, zero1, zero2, zero3, hsdp]
platform: dgx-h100
world: 4
mesh: {replicas: 2, shards: 2}
model: {kind: mlp, widths: [64, 96, 96, 64]}
batch: {micro: 4, accumulation: 2}
precision: {param: bf16, grad: bf16, reduce: fp32}
optimizer: {name: adam, clip: 1.0}
streams: 3
steps: 3
record: {spans: on}
"""
# Real systems, in the memory of PyTorch's allocator.
SYSTEMS = """
schemes: [dp, zero3, pytorch_ddp, fsdp2, {name: deepspeed, stage: 3}]
platform: dgx-h100
world: 4
model: {kind: gpt2, layers: 3, hidden: 256, heads: 4, vocab: 1024}
batch: {micro: 2, sequence: 256}
precision: {param: bf16, grad: bf16}
memory: {allocator: torch}
grads: transient
numerics: off
steps: 3
record: {spans: on}
"""


def run(folder, scenario, *options, code=0, **more):
    """Runs the scenario's text into folder/out; returns that folder and what the program said on stderr."""
    file = pathlib.Path(folder) / "s.yaml"
    file.write_text(scenario, encoding="utf-8")
    done = subprocess.run([PROGRAM, "run", str(file), "-o", str(file.parent / "out"), "--quiet", *options], capture_output=True,
                          text=True, cwd=folder, **more)
    assert done.returncode == code, (done.returncode, done.stderr)
    return file.parent / "out", done.stderr


def results(out):
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))["results"]


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
