"""A float64 restatement of the founding prototype in numpy, against the program's fp32 runs from .npy files."""
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from program import ProgramCase

WIDTHS = [8, 32, 4]
ROWS, BATCH, STEPS, LR, BETAS, EPS = 203, 4, 100, 1e-2, (0.9, 0.999), 1e-8


def loss_and_grad(theta, x, y):
    """Mean squared error of a perceptron (tanh, last layer linear) and its gradient; theta is W, b per layer, flat."""
    layers, at = [], 0
    for fan_in, fan_out in zip(WIDTHS, WIDTHS[1:]):
        weight = theta[at:at + fan_in * fan_out].reshape(fan_in, fan_out)
        at += fan_in * fan_out
        layers.append((weight, theta[at:at + fan_out]))
        at += fan_out
    inputs = [x]
    for i, (weight, bias) in enumerate(layers):
        out = inputs[-1] @ weight + bias
        inputs.append(np.tanh(out) if i + 1 < len(layers) else out)
    difference = inputs[-1] - y
    loss = np.mean(difference ** 2)
    delta, grads = 2 * difference / difference.size, []
    for i in reversed(range(len(layers))):
        grads = [(inputs[i].T @ delta).ravel(), delta.sum(axis=0)] + grads
        if i:
            delta = (delta @ layers[i][0].T) * (1 - inputs[i] ** 2)
    return loss, np.concatenate(grads)


class Sharded:
    """The prototype's state: a flat vector cut into one slice per rank; every slice has its own moments."""

    def __init__(self, theta, world):
        padded = np.concatenate([theta, np.zeros(-len(theta) % world)])
        self.n, self.t = len(theta), 0
        self.master = np.split(padded, world)
        self.m = [np.zeros_like(part) for part in self.master]
        self.v = [np.zeros_like(part) for part in self.master]

    def theta(self):
        return np.concatenate(self.master)[:self.n]

    def step(self, batches):
        theta = self.theta()
        results = [loss_and_grad(theta, x, y) for x, y in batches]
        mean = np.mean([grad for _, grad in results], axis=0)
        parts = np.split(np.concatenate([mean, np.zeros(-self.n % len(self.master))]), len(self.master))
        self.t += 1
        for r, grad in enumerate(parts):
            self.m[r] = BETAS[0] * self.m[r] + (1 - BETAS[0]) * grad
            self.v[r] = BETAS[1] * self.v[r] + (1 - BETAS[1]) * grad * grad
            m_hat = self.m[r] / (1 - BETAS[0] ** self.t)
            v_hat = self.v[r] / (1 - BETAS[1] ** self.t)
            self.master[r] = self.master[r] - LR * m_hat / (np.sqrt(v_hat) + EPS)
        return np.mean([loss for loss, _ in results])


def restated(theta, x, y, world):
    state, losses = Sharded(theta.astype(np.float64), world), []
    for t in range(STEPS):
        batches = []
        for r in range(world):
            rows = (np.arange(BATCH) + (t * world + r) * BATCH) % len(x)
            batches.append((x[rows].astype(np.float64), y[rows].astype(np.float64)))
        losses.append(state.step(batches))
    return np.array(losses), state.theta()


class TestRestatement(ProgramCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(7)
        count = sum(i * o + o for i, o in zip(WIDTHS, WIDTHS[1:]))
        self.theta0 = (0.3 * random.standard_normal(count)).astype(np.float32)
        self.x = random.standard_normal((ROWS, WIDTHS[0])).astype(np.float32)
        self.y = np.sin(self.x @ random.standard_normal((WIDTHS[0], WIDTHS[-1]))).astype(np.float32)
        for name in ("theta0", "x", "y"):
            np.save(self.path / f"{name}.npy", getattr(self, name))

    def run_program(self, world, backend):
        return self.results_of(f"""
name: against numpy
schemes: [dp, zero1, zero2, zero3]
platform: ideal-8
world: {world}
model: {{kind: mlp, widths: {WIDTHS}, activation: tanh, loss: mse, theta0: theta0.npy}}
data: {{x: x.npy, y: y.npy}}
batch: {{micro: {BATCH}}}
optimizer: {{name: adam, lr: {LR}, betas: {list(BETAS)}, eps: {EPS}}}
steps: {STEPS}
backend: {backend}
""")

    def compare(self, backend):
        for world in (1, 4, 5, 8):
            expected, theta = restated(self.theta0, self.x, self.y, world)
            self.assertLess(expected[-1], 0.7 * expected[0])  # it does learn something
            losses, thetas = self.run_program(world, backend)
            self.assertEqual(sorted(losses), ["dp", "zero1", "zero2", "zero3"])
            for scheme, loss in losses.items():
                worst = np.max(np.abs(np.array(loss) - expected) / expected)
                self.assertEqual(len(loss), STEPS)
                self.assertLess(worst, 1e-5, f"{scheme} at world {world}: every step's loss within 1e-5 of float64")
                self.assertEqual(thetas[scheme].dtype, np.float32)
                self.assertLess(np.max(np.abs(thetas[scheme] - theta)), 1e-3, scheme)
                print(f"{backend} world {world} {scheme}: largest relative difference of a loss {worst:.2e}")

    def test_every_steps_loss_on_simgrid_equals_a_float64_restatement_of_the_prototype(self):
        self.compare("simgrid")

    def test_every_steps_loss_on_threads_equals_a_float64_restatement_of_the_prototype(self):
        self.compare("threads")


if __name__ == "__main__":
    unittest.main()
