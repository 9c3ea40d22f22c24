"""What tools/validate_on_gpu runs, in order: what matters most comes first."""
import collections

MLP = """name: parity
schemes: [dp, zero1, zero2, zero3, zero3_keep]
world: 4
model: {kind: mlp, widths: [64, 256, 256, 256, 32], activation: tanh, loss: mse}
batch: {micro: 16}
optimizer: {name: adam, lr: 1e-3}
units: layer
streams: 3
steps: 50
seed: 1
record: {ranks: 1}
"""
GPT = """name: GPT-2 on one GPU
schemes: [dp]
world: 1
model: {preset: gpt2, vocab: 50304}
batch: {micro: 4, sequence: 1024}
precision: {param: bf16, grad: bf16}
optimizer: {name: adamw, lr: 3e-4, betas: [0.9, 0.95], weight_decay: 0.1}
units: layer
streams: 3
steps: 8
seed: 1
hazards: off
record: {ranks: 1, spans: on, theta: off}
"""

# `part` is the archive that a run's files go into; `minutes` its limit.
Run = collections.namedtuple("Run", "name part text settings minutes")
ON_GPU = ["backend=cuda", "fabric=loopback"]
FP32, BF16 = "precision={param: fp32, grad: fp32}", "precision={param: bf16, grad: bf16}"


def parity(name, settings):
    return [Run(f"parity_{name}", "parity", MLP, [*ON_GPU, settings], 1),
            Run(f"parity_{name}_on_host", "parity", MLP, ["backend=threads", settings], 0.5)]


def gpt2(name, *settings, part="gpt2", minutes=1):
    return Run(name, part, GPT, [*ON_GPU, *settings], minutes)


def gpt2_large(name, *settings):
    return gpt2(name, "model={preset: gpt2-large, vocab: 50304}", *settings, part="gpt2_large", minutes=1.5)


# A scheme has a run of its own where one takes long: what cuts the next one costs it nothing.
RUNS = [
    gpt2("gpt2_1_rank"), gpt2_large("gpt2_large_1_rank", "steps=4"), gpt2("gpt2_explicit_1_rank", "model.attention=explicit"),
    *parity("fp32", FP32), *parity("bf16", BF16),
    *(gpt2(f"gpt2_8_ranks_{scheme}", "world=8", "steps=4", f"schemes=[{scheme}]") for scheme in ("zero3", "dp", "zero1", "zero2")),
    gpt2_large("gpt2_large_2_ranks", "steps=3", "world=2"),
    *(gpt2_large(f"gpt2_large_8_ranks_{scheme}", "steps=3", "world=8", f"schemes=[{scheme}]")
      for scheme in ("zero3", "zero1", "zero2")),
    gpt2("gpt2_vocab_50257_1_rank", "model=gpt2"),
]
AFTER_A_BUILD = 8  # so many of them where the rest of the time went into building
