# SPDX-License-Identifier: Apache-2.0
"""A real model on real data, small enough for a laptop: a multilayer perceptron
in numpy on scikit-learn's bundled handwritten digits (8 x 8 pixels, 10 classes).

Everything is float32 and flat: the gradient that crosses the network is one
contiguous vector, in the order of `Mlp.shapes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Digits:
    """Images (n, 64) in [0, 1] and labels (n,), split once for all ranks."""

    train_x: F32
    train_y: Labels
    test_x: F32
    test_y: Labels

    @classmethod
    def load(cls, seed: int, test_share: float = 0.2) -> Digits:
        """Shuffle by `seed` and split; the same on every rank."""
        from sklearn.datasets import load_digits  # slow import, needed by training ranks only

        raw_x, raw_y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(raw_y))
        x = (raw_x[order] / 16.0).astype(np.float32)
        y = raw_y[order].astype(np.int64)
        cut = round(len(y) * (1 - test_share))
        return cls(x[:cut], y[:cut], x[cut:], y[cut:])

    def save(self, path: Path) -> None:
        """Write for `open`: many ranks then share one import of scikit-learn."""
        np.savez(path, **{name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def open(cls, path: Path) -> Digits:
        """What `save` wrote."""
        with np.load(path) as arrays:
            return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})

    def shard(self, rank: int, ranks: int) -> tuple[F32, Labels]:
        """Every `ranks`-th training sample, from the `rank`-th on."""
        return self.train_x[rank::ranks], self.train_y[rank::ranks]


class Mlp:
    """64 -> hidden -> hidden -> 10, ReLU, softmax cross entropy.

    hidden = 475 gives 261,735 parameters, 1,046,940 bytes of gradient.
    """

    def __init__(self, hidden: int, seed: int) -> None:
        if hidden < 1:
            raise ValueError(f"hidden width {hidden}: give 1 or more")
        self.shapes = [(64, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 10), (10,)]
        rng = np.random.default_rng(seed)
        parts = [
            rng.standard_normal(s).astype(np.float32) * np.float32(np.sqrt(2.0 / s[0]))
            if len(s) == 2
            else np.zeros(s, np.float32)
            for s in self.shapes
        ]
        self.weights: F32 = np.concatenate([p.ravel() for p in parts])

    @property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.weights.size)

    def _parts(self, flat: F32) -> list[F32]:
        cuts = np.cumsum([int(np.prod(s)) for s in self.shapes])[:-1]
        return [p.reshape(s) for p, s in zip(np.split(flat, cuts), self.shapes, strict=True)]

    def _forward(self, x: F32) -> tuple[F32, F32, F32]:
        w1, b1, w2, b2, w3, b3 = self._parts(self.weights)
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        return h1, h2, h2 @ w3 + b3

    def loss_and_gradient(self, x: F32, y: Labels) -> tuple[float, F32]:
        """Mean cross entropy over the batch (nats) and its flat gradient (size,)."""
        h1, h2, logits = self._forward(x)
        log_p = logits - logits.max(axis=1, keepdims=True)
        log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
        rows = np.arange(len(y))
        loss = float(-log_p[rows, y].mean())
        delta = np.exp(log_p)
        delta[rows, y] -= 1
        delta /= np.float32(len(y))
        _, _, w2, _, w3, _ = self._parts(self.weights)
        d2 = (delta @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        grads = (x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ delta, delta.sum(0))
        return loss, np.concatenate([g.astype(np.float32, copy=False).ravel() for g in grads])

    def accuracy(self, x: F32, y: Labels) -> float:
        """Share of samples whose largest logit is the label's."""
        return float((self._forward(x)[2].argmax(axis=1) == y).mean())


class Sgd:
    """Stochastic gradient descent with momentum, in place on a flat vector."""

    def __init__(self, learning_rate: float, momentum: float) -> None:
        self.learning_rate = np.float32(learning_rate)
        self.momentum = np.float32(momentum)
        self._velocity: F32 | None = None

    def step(self, weights: F32, gradient: F32) -> None:
        """weights -= learning_rate * (momentum * velocity + gradient)."""
        if self._velocity is None:
            self._velocity = np.zeros_like(weights)
        self._velocity *= self.momentum
        self._velocity += gradient
        weights -= self.learning_rate * self._velocity


class Batches:
    """Batches of one rank's shard, drawn without replacement per epoch, reshuffled by seed."""

    def __init__(self, x: F32, y: Labels, size: int, seed: int) -> None:
        if not 1 <= size <= len(y):
            raise ValueError(f"batch of {size}: the shard has {len(y)} samples, give 1 to {len(y)}")
        self._x, self._y, self._size = x, y, size
        self._rng = np.random.default_rng(seed)
        self._order = np.empty(0, np.int64)

    def next(self) -> tuple[F32, Labels]:
        """The next (size, 64) images and (size,) labels."""
        if len(self._order) < self._size:
            self._order = self._rng.permutation(len(self._y))
        take, self._order = self._order[: self._size], self._order[self._size :]
        return self._x[take], self._y[take]
