"""A float64 GPT-2 and Llama in plain numpy, trained in one process, against the program's fp32 runs on a text file."""
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from program import ProgramCase
from reference_transformer import Shape, Transformer, train

# Sizes that nothing divides by accident: a sequence shorter than the positions, an ffn of no family's ratio.
GPT2 = Shape("gpt2", layers=3, hidden=24, heads=4, kv_heads=4, ffn=52, vocab=260, positions=20, tied=True)
UNTIED = Shape("gpt2", layers=2, hidden=24, heads=3, kv_heads=3, ffn=96, vocab=256, positions=16, tied=False)
LLAMA = Shape("llama", layers=3, hidden=24, heads=6, kv_heads=2, ffn=52, vocab=260, positions=64, tied=False, eps=1e-4,
              rope_base=50.0)
SHARED = Shape("llama", layers=2, hidden=32, heads=4, kv_heads=4, ffn=80, vocab=256, positions=16, tied=True)
SEQUENCE, STEPS, LR, BETAS, EPS = 16, 20, 3e-3, (0.9, 0.95), 1e-8
TEXT = b"".join(b"%d bottles of beer on the wall, take one down; \xff\x00" % n for n in range(99, 0, -1))
PLANS = {"gpt2": ["attention: flash, gelu: fused, loss: fused, recompute: none",
                  "attention: flash, gelu: written_out, loss: fp32, recompute: full",
                  "attention: explicit, gelu: fused, loss: unfused, recompute: selective",
                  "attention: explicit, gelu: written_out, loss: fused, recompute: {every: 2}"]}
PLANS["llama"] = [plan.replace("gelu", "swiglu") for plan in PLANS["gpt2"]]


def initial(shape, seed):
    """Weights that make the model's parts matter: gains around one, biases and matrices away from zero."""
    random, parts = np.random.default_rng(seed), []
    for name, size in shape.weights():
        numbers = random.standard_normal(int(np.prod(size))) * (0.1 if len(size) == 1 else 0.2)
        parts.append(numbers + 1 if name.endswith("gain") else numbers)
    return np.concatenate(parts).astype(np.float32)


def windows(step, micro, micros, rank, world, sequences):
    """Sequence i is the bytes from i times the sequence's length on, with the byte behind as the last target, around the end."""
    first = ((step * micros + micro) * world + rank) * sequences
    places = (first + np.arange(sequences))[:, None] * SEQUENCE + np.arange(SEQUENCE + 1)
    tokens = np.frombuffer(TEXT, np.uint8)[places % len(TEXT)].astype(int)
    return tokens[:, :-1], tokens[:, 1:]


def decided(shape):
    """All parameters but the biases of k: a softmax takes them out again, and Adam follows the rounding of a gradient of zero."""
    mask = np.ones(shape.count(), bool)
    for name, view in shape.split(mask).items():
        if name.endswith("qkv.bias"):
            view[shape.hidden:2 * shape.hidden] = False
    return mask


class TestTransformer(ProgramCase):
    def run_program(self, shape, plan, world, micros, sequences, clip, schemes, backend="simgrid"):
        (self.path / "text").write_bytes(TEXT)
        np.save(self.path / "theta0.npy", initial(shape, 3))
        return self.results_of(f"""
schemes: [{schemes}]
platform: ideal-8
world: {world}
model: {{kind: {shape.family}, layers: {shape.layers}, hidden: {shape.hidden}, heads: {shape.heads},
         kv_heads: {shape.kv_heads}, ffn: {shape.ffn}, vocab: {shape.vocab}, positions: {shape.positions},
         tied: {"on" if shape.tied else "off"}, norm_eps: {shape.eps},
         {f"rope_base: {shape.rope_base}," if shape.family == "llama" else ""} theta0: theta0.npy, {plan}}}
data: {{text: text}}
batch: {{micro: {sequences}, sequence: {SEQUENCE}, accumulation: {micros}}}
optimizer: {{name: adam, lr: {LR}, betas: {list(BETAS)}, eps: {EPS}, clip: {clip or "off"}}}
numerics: full
steps: {STEPS}
backend: {backend}
""")

    def compare(self, shape, plans, world=1, micros=1, sequences=2, clip=None, schemes="dp", backend="simgrid"):
        batches = [[windows(t, a, micros, r, world, sequences) for a in range(micros) for r in range(world)] for t in range(STEPS)]
        expected, norms, theta = train(shape, initial(shape, 3), batches, LR, BETAS, EPS, clip)
        self.assertLess(expected[-1], 0.8 * expected[0])  # it does learn something
        if clip:
            self.assertTrue(np.any(norms > clip) and np.any(norms < clip), norms)
        for plan in plans:
            losses, thetas = self.run_program(shape, plan, world, micros, sequences, clip, schemes, backend)
            self.assertEqual(sorted(losses), sorted(schemes.split(", ")))
            for scheme, loss in losses.items():
                self.assertEqual(len(loss), STEPS)
                worst = np.max(np.abs(np.array(loss) - expected) / expected)
                off = np.max(np.abs(thetas[scheme] - theta)[decided(shape)])
                print(f"{shape.family} world {world} {scheme} {plan}: largest relative difference of a loss {worst:.1e}, "
                      f"largest difference of a parameter {off:.1e}")
                self.assertLess(worst, 2e-6, f"{scheme}, {plan}: every step's loss within 2e-6 of float64")
                self.assertLess(off, 3e-4, f"{scheme}, {plan}")

    def test_the_references_gradient_equals_finite_differences(self):
        for shape in (GPT2, UNTIED, LLAMA, SHARED):
            random = np.random.default_rng(5)
            theta, batch = initial(shape, 3).astype(np.float64), windows(0, 0, 1, 0, 1, 3)
            _, grad = Transformer(shape, theta).loss_and_grad(*batch)
            at = 0
            for name, size in shape.weights():  # a random direction within each weight
                direction = np.zeros_like(theta)
                direction[at:at + int(np.prod(size))] = random.standard_normal(int(np.prod(size)))
                at += int(np.prod(size))
                there, back = (Transformer(shape, theta + step * direction).loss_and_grad(*batch)[0] for step in (1e-5, -1e-5))
                self.assertAlmostEqual((there - back) / 2e-5, grad @ direction, delta=1e-6, msg=f"{shape.family} {name}")

    def test_every_steps_loss_of_gpt2_equals_plain_numpy_for_every_plan_of_kernels(self):
        self.compare(GPT2, PLANS["gpt2"])

    def test_every_steps_loss_of_llama_equals_plain_numpy_for_every_plan_of_kernels(self):
        self.compare(LLAMA, PLANS["llama"])

    def test_an_untied_gpt2_and_a_tied_llama_equal_plain_numpy_too(self):
        self.compare(UNTIED, PLANS["gpt2"][:1])
        self.compare(SHARED, PLANS["llama"][3:])

    def test_four_ranks_equal_the_mean_of_four_gradients_with_accumulation_and_clipping(self):
        self.compare(GPT2, PLANS["gpt2"][1:3], world=4, micros=2, sequences=1, clip=2.0, schemes="dp, zero3")
        self.compare(LLAMA, PLANS["llama"][1:3], world=4, micros=2, sequences=1, clip=2.0, schemes="zero1, zero2")

    def test_threads_train_the_same_transformers(self):
        self.compare(GPT2, PLANS["gpt2"][:1], world=4, sequences=1, schemes="zero3", backend="threads")
        self.compare(LLAMA, PLANS["llama"][:1], world=4, sequences=1, schemes="zero3", backend="threads")


if __name__ == "__main__":
    unittest.main()
