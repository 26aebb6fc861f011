"""The two layouts of a count sketch: the effect of a write and the noise of a read."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.count_sketch import SketchLearner
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec
from tests.naive import learning as naive
from tests.stream_app.models.learners import CHANNELS, CLEAN, batch_of

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

LAYOUTS = ("sketch", "literal")
STILL = Parameters(
    user_variance=0.3,
    item_variance=0.2,
    mean_variance=0.0,
    user_bias_variance=0.0,
    item_bias_variance=0.0,
    user_shrink=0.02,
    item_shrink=0.03,
    cell_sd=0.3,
)


def made(model: str, **sizes: int) -> SketchLearner:
    learner = build(model, CHANNELS, LearnerSpec(parameters=STILL, **sizes))  # type: ignore[arg-type]
    assert isinstance(learner, SketchLearner)
    return learner


def obvious(learner: SketchLearner, seed: int) -> naive.Sketch:
    """Return the obvious sketch with the learner's cells."""
    kind = naive.Literal if learner.name == "literal" else naive.Blocked
    found = kind(learner.factors, learner.depth, learner.width, seed, STILL)
    found.C = learner.arrays()["cells"].reshape(learner.depth, learner.width).astype(np.float64)
    return found


@pytest.mark.parametrize("model", LAYOUTS)
def test_a_read_is_the_mean_of_the_signed_cells(model):
    learner = made(model, factors=8, depth=4, sketch_bytes=8192, scalars_bytes=256, seed=3)
    keys = np.array([0, 1, 17, 2**63, 2**64 - 1], np.uint64)
    sketch = obvious(learner, 3)
    for side, read in enumerate((learner.users, learner.items)):
        wanted = [sketch.read(side, key) for key in keys.tolist()]
        assert read(keys)[0] == pytest.approx(np.array(wanted), abs=1e-6)


@pytest.mark.parametrize("model", LAYOUTS)
def test_one_update_is_a_step_down_the_gradient(model):
    """Central differences of e^2/2 + lam (|p|^2 + |q|^2)/2 by every cell that the rating touches.

    With C a matrix of rows j, d loss / d C = 1/k * s * (-e q + lam p); the step is -k times it
    (4.3), scaled by the gains. Everything else must stay where it was.
    """
    k, d = 3, 6
    learner = made(
        model, factors=d, depth=k, sketch_bytes=4 * k * d * 50, scalars_bytes=256, seed=9
    )
    before = learner.arrays()["cells"].astype(np.float64).copy()
    sketch = obvious(learner, 9)
    p, q = sketch.read(0, 5), sketch.read(1, 6)
    rating = 4.0

    def loss(side: int) -> float:
        p, q = sketch.read(0, 5), sketch.read(1, 6)
        shrink = (STILL.user_shrink, STILL.item_shrink)[side]
        return (rating - 3.0 - p @ q) ** 2 / 2 + shrink * float((p, q)[side] @ (p, q)[side]) / 2

    T = STILL.user_variance * q @ q + STILL.item_variance * p @ p
    T += STILL.coupling * d * STILL.user_variance * STILL.item_variance
    gains = np.array([STILL.user_variance, STILL.item_variance]) * (1 + STILL.early_gain)
    gains /= STILL.noise + T
    wanted = np.zeros_like(sketch.C)
    for side, key in ((0, 5), (1, 6)):
        for j, _, cell, _ in sketch.places(side, key):
            held, h = sketch.C[j, cell], 1e-4
            sketch.C[j, cell] = held + h
            up = loss(side)
            sketch.C[j, cell] = held - h
            slope = (up - loss(side)) / (2 * h)
            sketch.C[j, cell] = held
            wanted[j, cell] -= k * gains[side] * slope
    cells = [(j, c) for side, key in ((0, 5), (1, 6)) for j, _, c, _ in sketch.places(side, key)]
    assert len(set(cells)) == len(cells), "this seed has a collision; the check needs none"
    learner.learn_many(*batch_of([(5, 6, 3, CLEAN, True)]))
    moved = learner.arrays()["cells"].astype(np.float64) - before
    assert moved.reshape(wanted.shape) == pytest.approx(wanted, abs=1e-6)
    assert np.abs(moved).max() > 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("model", LAYOUTS)
def test_the_error_of_a_read_is_f2_over_width_times_depth(model):
    """Var * w k / F2 lies in .95 .. 1.05 over hash draws, mean error near 0 (Charikar et al. 2002).

    400 entities x 32 components, w = 1600, k = 4, 12 seeds: 153,600 errors, of which those of one
    block are dependent; the seeds are fixed, so it cannot fail at random (spread of the ratio
    over seeds: 1 %), and a factor of 2 (one row ignored, one sign for all) is always caught.
    """
    d, k, w, n = 32, 4, 1600, 400
    random = np.random.default_rng(1)
    values = random.normal(size=(n, d))
    errors = []
    for seed in range(12):
        sketch_bytes = 4 * k * w
        learner = made(
            model, factors=d, depth=k, sketch_bytes=sketch_bytes, scalars_bytes=64, seed=seed
        )
        cells = learner.arrays()["cells"]
        cells[:] = 0
        sketch = obvious(learner, seed)
        for key in range(n):
            j, c, at, sign = np.array(sketch.places(0, key)).T
            np.add.at(sketch.C, (j, at), sign * values[key][c])
        cells[:] = sketch.C.reshape(-1)
        errors.append(learner.users(np.arange(n, dtype=np.uint64))[0] - values)
    errors = np.array(errors)
    ratio = np.mean(errors**2) * w * k / ((n - 1) / n * np.sum(values**2))
    assert 0.95 <= ratio <= 1.05
    assert abs(errors.mean()) < 0.01


def test_both_layouts_have_balanced_addresses_and_signs():
    """Sequential keys, which is what ids are: no row favours a cell or a sign (5 sigma)."""
    for kind in (naive.Blocked, naive.Literal):
        sketch = kind(4, 3, 64, 1, STILL)
        found = np.array([sketch.places(side, key) for side in (0, 1) for key in range(2000)])
        for j in range(3):
            row = found[found[..., 0] == j]
            loads = np.bincount(row[:, 2], minlength=64)
            draws = len(row) / (4 if kind is naive.Blocked else 1)
            cells = 16 if kind is naive.Blocked else 64
            assert np.abs(loads - len(row) / 64).max() < 5.5 * np.sqrt(draws / cells)
            assert abs(row[:, 3].sum()) < 5 * np.sqrt(len(row))


def test_entities_that_share_a_cell_in_one_row_do_not_share_it_in_the_next():
    """Pairs that meet in two given rows: 1 in B^2 within 13 %, which is 4 sigma."""
    for kind in (naive.Blocked, naive.Literal):
        sketch = kind(1, 4, 32, 1, STILL)
        at = np.array([sketch.places(0, key) for key in range(1500)])[:, :, 2]
        meet = at[:, None, :] == at[None, :, :]
        for i, j in ((0, 1), (0, 2), (1, 2), (2, 3)):
            both = np.triu(meet[:, :, i] & meet[:, :, j], 1).sum()
            assert both == pytest.approx(1500 * 1499 / 2 / 32**2, rel=0.13)
