# SPDX-License-Identifier: Apache-2.0
"""The model against numerical derivatives, the data against its split, and that training trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hosts.training import Batches, Digits, Mlp, Sgd

SAMPLES = 1797


@pytest.fixture(scope="module")
def digits() -> Digits:
    return Digits.load(3)


def loss64(model: Mlp, weights: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: object) -> float:
    """The same model written once more, in float64: mean cross entropy in nats."""
    parts, at = [], 0
    for shape in model.shapes:
        size = int(np.prod(shape))
        parts.append(weights[at : at + size].reshape(shape))
        at += size
    assert at == weights.size
    for w, b in (parts[0:2], parts[2:4]):
        x = np.maximum(x @ w + b, 0)
    logits = x @ parts[4] + parts[5]
    top = logits.max(axis=1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    return float(-np.mean(log_p[np.arange(len(logits)), y]))


def test_the_gradient_is_the_derivative_of_the_loss(digits: Digits) -> None:
    model = Mlp(hidden=7, seed=5)
    rng = np.random.default_rng(1)
    model.weights += rng.standard_normal(model.size).astype(np.float32) * 0.1  # biases away from 0
    x, y = digits.train_x[:20], digits.train_y[:20]
    loss, gradient = model.loss_and_gradient(x, y)
    at, wide = model.weights.astype(np.float64), x.astype(np.float64)
    assert loss == pytest.approx(loss64(model, at, wide, y), rel=1e-5)
    step = 1e-6
    for i in range(model.size):
        there = at.copy()
        there[i] += step
        back = at.copy()
        back[i] -= step
        slope = (loss64(model, there, wide, y) - loss64(model, back, wide, y)) / (2 * step)
        assert gradient[i] == pytest.approx(slope, rel=1e-3, abs=1e-6), f"weight {i}"


def test_the_gradient_is_flat_float32_as_long_as_the_weights(digits: Digits) -> None:
    model = Mlp(hidden=475, seed=1)
    _, gradient = model.loss_and_gradient(digits.train_x[:4], digits.train_y[:4])
    assert gradient.dtype == model.weights.dtype == np.float32
    assert gradient.shape == model.weights.shape == (261_735,)
    assert gradient.flags.c_contiguous


def test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch(digits: Digits) -> None:
    """What lets an all-reduce stand for one large batch."""
    model = Mlp(hidden=16, seed=2)
    x, y = digits.train_x[:80], digits.train_y[:80]
    _, whole = model.loss_and_gradient(x, y)
    parts = [model.loss_and_gradient(x[i::4], y[i::4])[1] for i in range(4)]
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=1e-3, atol=1e-6)


def test_the_same_seed_gives_the_same_model_and_data() -> None:
    a, b, other = Digits.load(7), Digits.load(7), Digits.load(8)
    assert np.array_equal(a.train_x, b.train_x) and np.array_equal(a.test_y, b.test_y)
    assert not np.array_equal(a.train_x, other.train_x)
    assert np.array_equal(Mlp(9, 7).weights, Mlp(9, 7).weights)
    assert not np.array_equal(Mlp(9, 7).weights, Mlp(9, 8).weights)


def test_saved_data_comes_back_as_it_was(digits: Digits, tmp_path: Path) -> None:
    digits.save(tmp_path / "digits.npz")
    opened = Digits.open(tmp_path / "digits.npz")
    for name in ("train_x", "train_y", "test_x", "test_y"):
        there, back = getattr(digits, name), getattr(opened, name)
        assert there.dtype == back.dtype and np.array_equal(there, back)


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_shards_part_the_training_data_and_leave_out_the_test_data(digits: Digits, ranks: int) -> None:
    shards = [digits.shard(rank, ranks) for rank in range(ranks)]
    assert sum(len(y) for _, y in shards) == len(digits.train_y)
    assert len(digits.train_y) + len(digits.test_y) == SAMPLES
    together = sorted(image.tobytes() for x, _ in shards for image in x)
    assert together == sorted(image.tobytes() for image in digits.train_x)
    assert digits.train_x.min() >= 0 and digits.train_x.max() == 1


def test_an_epoch_sees_every_sample_once_and_is_shuffled_anew() -> None:
    x = np.arange(12, dtype=np.float32).reshape(12, 1)
    batches = Batches(x, np.arange(12), 4, seed=1)
    epochs = [[int(v) for _ in range(3) for v in batches.next()[1]] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(12))
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("size", [0, 13])
def test_a_batch_that_the_shard_cannot_fill_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"batch of {size}"):
        Batches(np.zeros((12, 1), np.float32), np.zeros(12, np.int64), size, seed=1)


def test_a_model_without_width_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden width 0"):
        Mlp(0, 1)


def test_momentum_adds_up_as_written() -> None:
    weights = np.array([1.0], np.float32)
    optimizer = Sgd(0.5, 0.5)
    optimizer.step(weights, np.array([1.0], np.float32))
    assert weights[0] == 0.5
    optimizer.step(weights, np.array([1.0], np.float32))  # velocity 1.5
    assert weights[0] == -0.25


def test_training_learns_the_digits(digits: Digits) -> None:
    model, optimizer = Mlp(32, 1), Sgd(0.05, 0.9)
    batches = Batches(digits.train_x, digits.train_y, 64, seed=1)
    before = model.accuracy(digits.test_x, digits.test_y)
    first, _ = model.loss_and_gradient(digits.train_x, digits.train_y)
    for _ in range(100):
        _, gradient = model.loss_and_gradient(*batches.next())
        optimizer.step(model.weights, gradient)
    last, _ = model.loss_and_gradient(digits.train_x, digits.train_y)
    assert last < first / 4
    assert model.accuracy(digits.test_x, digits.test_y) > max(0.85, before)
