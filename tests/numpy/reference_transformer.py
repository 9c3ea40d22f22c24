"""GPT-2 and Llama in plain numpy, one process, float64: the model that the simulator's ops are compared with."""
import dataclasses
import math

import numpy as np


@dataclasses.dataclass
class Shape:
    """Sizes of a model; `family` is gpt2 (learned positions, LayerNorm, GELU) or llama (rotary positions, RMSNorm, SwiGLU)."""
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    positions: int
    tied: bool
    eps: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def weights(self):
        """Names and shapes in model order. A tied head's norm stands with the embedding."""
        h, biased = self.hidden, self.family == "gpt2"
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim

        def norm(name):
            return [(name + ".gain", (h,))] + [(name + ".bias", (h,))] * biased

        def linear(name, rows, cols):
            return [(name, (rows, cols))] + [(name + ".bias", (cols,))] * biased

        names = [("tokens", (self.vocab, h))] + [("positions", (self.positions, h))] * biased
        names += norm("norm") * self.tied
        for i in range(self.layers):
            names += norm(f"{i}.norm1") + linear(f"{i}.qkv", h, qkv) + linear(f"{i}.out", h, h) + norm(f"{i}.norm2")
            names += linear(f"{i}.gate", h, self.ffn) * (not biased)
            names += linear(f"{i}.up", h, self.ffn) + linear(f"{i}.down", self.ffn, h)
        return names + (norm("norm") + [("head", (self.vocab, h))]) * (not self.tied)

    def split(self, flat):
        """A flat vector as named views."""
        views, at = {}, 0
        for name, shape in self.weights():
            views[name] = flat[at:at + math.prod(shape)].reshape(shape)
            at += math.prod(shape)
        assert at == len(flat)
        return views

    def count(self):
        return sum(math.prod(shape) for _, shape in self.weights())


class Transformer:
    """loss_and_grad: forward, and the backward by hand. Activations are [sequences, tokens, ...]."""

    def __init__(self, shape, theta):
        self.shape, self.w = shape, shape.split(theta)
        self.flat_grad = np.zeros_like(theta)
        self.g = shape.split(self.flat_grad)

    def linear(self, name, x):
        y = x @ self.w[name]
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def linear_back(self, name, x, dy):
        self.g[name] += x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
        if name + ".bias" in self.w:
            self.g[name + ".bias"] += dy.sum(axis=(0, 1))
        return dy @ self.w[name].T

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True) if self.shape.family == "gpt2" else x
        size = np.sqrt(np.mean(centred ** 2, -1, keepdims=True) + self.shape.eps)
        unit = centred / size
        y = unit * self.w[name + ".gain"]
        return (y + self.w[name + ".bias"] if name + ".bias" in self.w else y), (unit, size)

    def norm_back(self, name, kept, dy):
        unit, size = kept
        self.g[name + ".gain"] += (dy * unit).sum(axis=(0, 1))
        if name + ".bias" in self.w:
            self.g[name + ".bias"] += dy.sum(axis=(0, 1))
        dunit = dy * self.w[name + ".gain"]
        dx = dunit - unit * np.mean(dunit * unit, -1, keepdims=True)
        if self.shape.family == "gpt2":
            dx = dx - dunit.mean(-1, keepdims=True)
        return dx / size

    def rotate(self, x, sign):
        """x [sequences, tokens, heads, head_dim]: pairs (i, i + half) turn by the token's position."""
        half = self.shape.head_dim // 2
        angle = sign * np.arange(x.shape[1])[:, None] * self.shape.rope_base ** (-np.arange(half) / half)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def heads_of(self, qkv):
        s = self.shape
        q, k, v = np.split(qkv, [s.heads * s.head_dim, (s.heads + s.kv_heads) * s.head_dim], -1)
        return [part.reshape(*part.shape[:2], -1, s.head_dim) for part in (q, k, v)]

    def attention(self, qkv):
        s = self.shape
        q, k, v = self.heads_of(qkv)
        if s.family == "llama":
            q, k = self.rotate(q, 1), self.rotate(k, 1)
        k, v = (np.repeat(part, s.heads // s.kv_heads, axis=2) for part in (k, v))
        scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(s.head_dim)
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = np.einsum("bhij,bjhd->bihd", p, v)
        return out.reshape(*out.shape[:2], -1), (q, k, v, p)

    def attention_back(self, kept, dout):
        s = self.shape
        q, k, v, p = kept
        dout = dout.reshape(q.shape)
        dv = np.einsum("bhij,bihd->bjhd", p, dout)
        dp = np.einsum("bihd,bjhd->bhij", dout, v)
        dscores = p * (dp - (dp * p).sum(-1, keepdims=True)) / math.sqrt(s.head_dim)
        dq = np.einsum("bhij,bjhd->bihd", dscores, k)
        dk = np.einsum("bhij,bihd->bjhd", dscores, q)
        dk, dv = (part.reshape(*part.shape[:2], s.kv_heads, -1, s.head_dim).sum(3) for part in (dk, dv))
        if s.family == "llama":
            dq, dk = self.rotate(dq, -1), self.rotate(dk, -1)
        return np.concatenate([part.reshape(*part.shape[:2], -1) for part in (dq, dk, dv)], -1)

    def feed_forward(self, i, x):
        up = self.linear(f"{i}.up", x)
        if self.shape.family == "llama":
            gate = self.linear(f"{i}.gate", x)
            y = gate / (1 + np.exp(-gate)) * up
        else:
            gate = np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up ** 3))
            y = 0.5 * up * (1 + gate)
        return self.linear(f"{i}.down", y), (up, gate, y)

    def feed_forward_back(self, i, x, kept, dout):
        up, gate, y = kept
        dy = self.linear_back(f"{i}.down", y, dout)
        if self.shape.family == "llama":
            sigmoid = 1 / (1 + np.exp(-gate))
            dgate = dy * up * sigmoid * (1 + gate * (1 - sigmoid))
            return self.linear_back(f"{i}.up", x, dy * gate * sigmoid) + self.linear_back(f"{i}.gate", x, dgate)
        inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * up ** 2)
        return self.linear_back(f"{i}.up", x, dy * (0.5 * (1 + gate) + 0.5 * up * (1 - gate ** 2) * inner))

    def loss_and_grad(self, ids, targets):
        """ids, targets [sequences, tokens], whole numbers. The mean of -log p(target), and its gradient in model order."""
        s, tokens = self.shape, ids.shape[1]
        x = self.w["tokens"][ids]
        if s.family == "gpt2":
            x = x + self.w["positions"][:tokens]
        kept = []
        for i in range(s.layers):
            a, norm1 = self.norm(f"{i}.norm1", x)
            mixed, attention = self.attention(self.linear(f"{i}.qkv", a))
            x = x + self.linear(f"{i}.out", mixed)
            b, norm2 = self.norm(f"{i}.norm2", x)
            y, feed_forward = self.feed_forward(i, b)
            x = x + y
            kept.append((a, norm1, mixed, attention, b, norm2, feed_forward))
        x, norm = self.norm("norm", x)
        head = "tokens" if s.tied else "head"
        logits = x @ self.w[head].T
        logits -= logits.max(-1, keepdims=True)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        at = (*np.indices(ids.shape), targets)
        loss = -logp[at].mean()

        dlogits = np.exp(logp)
        dlogits[at] -= 1
        dlogits /= ids.size
        self.g[head] += dlogits.reshape(-1, s.vocab).T @ x.reshape(-1, s.hidden)
        dx = self.norm_back("norm", norm, dlogits @ self.w[head])
        for i in reversed(range(s.layers)):
            a, norm1, mixed, attention, b, norm2, feed_forward = kept[i]
            dx = dx + self.norm_back(f"{i}.norm2", norm2, self.feed_forward_back(i, b, feed_forward, dx))
            dqkv = self.attention_back(attention, self.linear_back(f"{i}.out", mixed, dx))
            dx = dx + self.norm_back(f"{i}.norm1", norm1, self.linear_back(f"{i}.qkv", a, dqkv))
        np.add.at(self.g["tokens"], ids, dx)
        if s.family == "gpt2":
            self.g["positions"][:tokens] += dx.sum(0)
        return loss, self.flat_grad


def train(shape, theta, batches, lr, betas=(0.9, 0.999), eps=1e-8, clip=None):
    """Adam over steps of batches: batches[t] is a list of (ids, targets), one per rank and micro-batch; gradients and losses are
    averaged over them. Returns the losses before each update, the norms of the gradients, and the trained parameters."""
    theta, losses, norms = theta.astype(np.float64), [], []
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, parts in enumerate(batches, 1):
        results = [Transformer(shape, theta).loss_and_grad(*part) for part in parts]
        losses.append(np.mean([loss for loss, _ in results]))
        grad = np.mean([grad for _, grad in results], axis=0)
        norms.append(np.linalg.norm(grad))
        if clip and norms[-1] > clip:
            grad = grad * (clip / norms[-1])
        m = betas[0] * m + (1 - betas[0]) * grad
        v = betas[1] * v + (1 - betas[1]) * grad ** 2
        theta = theta - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return np.array(losses), np.array(norms), theta
