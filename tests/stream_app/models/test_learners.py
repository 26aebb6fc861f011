"""What every learner promises, over every learner."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Learner, LearnerSpec
from tests.naive import learning as naive
from tests.stream_app.models.learners import (
    CHANNELS,
    CLEAN,
    EVERY_MODEL,
    HIDDEN,
    KNOWN,
    MECHANISMS,
    NOBODYS,
    SIZES,
    Batch,
    batch_of,
    batches,
    digest,
    small,
    stream,
)

every_model = pytest.mark.parametrize("model", EVERY_MODEL)


def naive_of(model: str, parameters: Parameters) -> naive.Learner:
    factors, depth = SIZES["factors"], 1 if model == "hashing" else SIZES["depth"]
    if model == "dense":
        return naive.Learner(naive.Rows(factors, 5, parameters), naive.Scalars(), parameters)
    kind = naive.Literal if model == "literal" else naive.Blocked
    width = SIZES["sketch_bytes"] // (4 * depth * factors) * factors
    vectors = kind(factors, depth, width, 5, parameters)
    return naive.Learner(vectors, naive.HashedScalars(SIZES["scalars_bytes"] // 16), parameters)


@every_model
@settings(deadline=None, max_examples=60)
@given(batch=batches())
def test_the_kernels_do_what_the_obvious_version_does(model: str, batch: Batch) -> None:
    parameters = Parameters(clip=6.0)
    learner, obvious = small(model, parameters), naive_of(model, parameters)
    update = learner.learn_many(*batch)
    for n, (u, i, z, c, learn, g) in enumerate(
        zip(*(column.tolist() for column in batch), strict=True)
    ):
        if c not in KNOWN:
            assert update.clipped[n]
            continue
        start, channel = CHANNELS.starts[c], CHANNELS.channel(c)
        absent = CHANNELS.absent[start : start + len(channel)] if CHANNELS.presence[c] else None
        wanted = obvious.learn(u, i, z, channel, exact=c == CLEAN, learn=learn, absent=absent, g=g)
        found = tuple(column[n].item() for column in update)
        assert found == pytest.approx(wanted, abs=2e-4, nan_ok=True)
    for side, (read, keys) in enumerate(((learner.users, batch[0]), (learner.items, batch[1]))):
        vectors, biases = read(keys)
        for n, key in enumerate(keys.tolist()):
            assert vectors[n] == pytest.approx(obvious.v.read(side, key), abs=2e-4)
            scalars = obvious.s.of(obvious.v.hash(side, key), side, key)
            assert biases[n] == pytest.approx(scalars[0], abs=2e-4)
    assert learner.mean == pytest.approx(obvious.mean, abs=1e-4)


@every_model
@settings(deadline=None, max_examples=40)
@given(batch=batches(), cut=st.integers(0, 30))
def test_a_batch_may_be_cut_anywhere(model: str, batch: Batch, cut: int) -> None:
    whole, parts = small(model), small(model)
    once = whole.learn_many(*batch)
    first = parts.learn_many(*(column[:cut] for column in batch))
    second = parts.learn_many(*(column[cut:] for column in batch))
    assert digest(whole) == digest(parts)
    for a, b, c in zip(once, first, second, strict=True):
        assert a.tobytes() == np.concatenate([b, c]).tobytes()


@every_model
def test_a_long_stream_is_the_same_in_batches_of_any_size(model: str) -> None:
    """Across the 64 events hashed ahead, and the slices and doublings of dense rows."""
    batch = stream(9000, 1, users=3000, items=2500)
    digests = []
    for size in (9000, 1000, 63):
        learner = small(model)
        for first in range(0, 9000, size):
            learner.learn_many(*(column[first : first + size] for column in batch))
        digests.append(digest(learner))
    assert digests[0] == digests[1] == digests[2]


@every_model
def test_what_is_not_to_be_learned_leaves_the_state_untouched(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(500, 2))
    before = digest(learner)
    u, i, z, c, _, g = stream(500, 3, users=400, items=400)
    update = learner.learn_many(u, i, z, c, np.zeros(500, np.bool_), g)
    assert np.abs(update.error).max() > 0.1
    learner.predict_many(u, i)
    learner.residuals(u, i, z, c, g)
    learner.users(u)
    learner.items(i)
    assert digest(learner) == before


@every_model
def test_a_clipped_rating_leaves_the_state_untouched(model: str) -> None:
    learner = small(model, Parameters(clip=0.3))
    learner.learn_many(*stream(200, 4))
    far = batch_of([(1, 1, 0, CLEAN, True), (10**9, 10**9, 0, CLEAN, True)])
    before = digest(learner)
    update = learner.learn_many(*far)
    assert update.clipped.all()
    assert (update.error**2 > 0.3).all()
    assert digest(learner) == before


@every_model
def test_a_report_or_mechanism_outside_the_tables_is_refused(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(200, 4))
    before = digest(learner)
    bad = [(1, 1, n, c, True) for c, n in enumerate(CHANNELS.alphabets.tolist())] + [
        (1, 1, 0, NOBODYS, True),
        (1, 1, 0, len(CHANNELS), True),
        (1, 1, 255, 65_535, True),
    ]
    update = learner.learn_many(*batch_of(bad))
    assert update.clipped.all()
    assert (update.error == 0).all()
    assert np.isnan(update.probability).all()
    assert digest(learner) == before


@every_model
def test_predictions_and_residuals_are_those_of_learning(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(500, 5))
    u, i, z, c, _, g = stream(100, 6)
    first = slice(0, 1)
    predicted, residuals = learner.predict_many(u, i), learner.residuals(u, i, z, c, g)
    one = (column[first] for column in (u, i, z, c))
    update = learner.learn_many(*one, np.ones(1, np.bool_), g[first])
    assert update.predicted[0] == predicted[0]
    assert update.error[0] == residuals[0]
    assert ((predicted >= 1) & (predicted <= 5)).all()


@every_model
def test_a_prediction_is_mean_and_biases_and_inner_product(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(2000, 7))
    u, i = stream(100, 8)[:2]
    (p, bu), (q, bi) = learner.users(u), learner.items(i)
    rhat = learner.mean + bu + bi + (p.astype(float) * q).sum(1)
    assert learner.predict_many(u, i) == pytest.approx(np.clip(rhat, 1, 5), abs=1e-5)


@every_model
def test_a_clean_report_and_a_certain_channel_teach_the_same(model: str) -> None:
    """At epsilon = infinity the decode becomes the clean learner, up to the last Newton step."""
    certain = build(model, _uncertain_by(1e-15), LearnerSpec(seed=5, **SIZES))
    clean = small(model)
    u, i, z, c, learn, _ = stream(400, 9)
    z, c = z % 5, np.zeros_like(c)
    a, b = clean.learn_many(u, i, z, c, learn), certain.learn_many(u, i, z, c, learn)
    assert a.predicted == pytest.approx(b.predicted, abs=0.05)
    assert np.abs(a.error - b.error).mean() < 0.01


def _uncertain_by(little: float):
    """Return a channel that is the identity but for `little`, so that it is decoded."""

    class Nearly:
        id, levels, inputs, alphabet, masks = "nearly", 5, 5, 5, range(0)

        def likelihood(self, mask: int = 0) -> np.ndarray:
            return np.eye(5) * (1 - 5 * little) + little

        def value(self, reports: np.ndarray) -> np.ndarray:
            return np.ones(len(reports))

        presence = square = value

    channels = Channels.from_mechanisms([Nearly()])  # type: ignore[list-item]
    assert not channels.exact[0]
    return channels


@every_model
def test_the_state_never_becomes_infinite_or_not_a_number(model: str) -> None:
    """One user and one item against each other, extreme parameters, a sketch of one block."""
    wild = Parameters(user_variance=99, item_variance=99, user_bias_variance=99, noise=0.01,
                      bias_shrink=50, user_shrink=50, coupling=0.99, prior_slope=0)  # fmt: skip
    one = {"factors": 4, "depth": 3, "sketch_bytes": 48, "scalars_bytes": 64}
    learner = build(model, CHANNELS, LearnerSpec(parameters=wild, seed=1, **one))
    n = np.arange(20_000)
    for c in KNOWN:
        z = np.where(n % 2, 0, CHANNELS.alphabets[c] - 1).astype(np.uint8)
        keys = (n % 3).astype(np.uint64)
        channels, learn = np.full(len(n), c, np.uint16), np.ones(len(n), np.bool_)
        learner.learn_many(keys, keys, z, channels, learn, (n % 5 / 4).astype(np.float32))
    for array in learner.arrays().values():
        assert np.isfinite(array).all()
    assert np.isfinite(learner.predict_many(keys, keys)).all()


@every_model
def test_a_bias_is_held_within_twice_the_width_of_the_scale(model: str) -> None:
    """A shrinkage this strong throws it from side to side, each time further."""
    wild = Parameters(
        user_variance=0,
        item_variance=0,
        user_bias_variance=99,
        item_bias_variance=99,
        bias_shrink=99,
        noise=0.01,
    )
    learner, key, largest = small(model, wild), np.array([1], np.uint64), 0.0
    for _ in range(5):
        learner.learn_many(*batch_of([(1, 2, 4, CLEAN, True)]))
        largest = max(largest, float(np.abs(learner.users(key)[1][0])))
    assert largest == 8


@every_model
def test_seeds_make_different_learners_and_equal_seeds_equal_ones(model: str) -> None:
    batch = stream(300, 10)
    made = [build(model, CHANNELS, LearnerSpec(seed=seed, **SIZES)) for seed in (1, 1, 2)]
    for learner in made:
        learner.learn_many(*batch)
    one, same, other = (digest(learner) for learner in made)
    assert one == same
    assert one != other


@every_model
def test_an_unknown_entity_reads_its_initial_vector_and_no_bias(model: str) -> None:
    vectors, biases = small(model).users(np.array([7, 8], np.uint64))
    assert (vectors != 0).all()
    assert np.abs(vectors).max() < 0.2
    assert (biases == 0).all()


@every_model
def test_any_columns_that_hold_the_numbers_will_do(model: str) -> None:
    """Read-only views of a message and strided columns, too."""
    batch = stream(100, 11)
    one, other = small(model), small(model)
    one.learn_many(*batch)
    views = []
    for column in batch:
        wide = np.repeat(column, 2)[::2]
        wide.flags.writeable = False
        views.append(wide)
    other.learn_many(*views)
    assert digest(one) == digest(other)
    with pytest.raises(ValueError, match="one length"):
        one.learn_many(batch[0][:3], *batch[1:5])
    with pytest.raises(ValueError, match="3 priors for 100 events"):
        one.learn_many(*batch[:5], batch[5][:3])


@every_model
def test_without_priors_every_event_is_a_rating(model: str) -> None:
    """And where no channel protects presence, no column of ones is read or made."""
    batch = stream(200, 16)
    one, other = small(model), small(model)
    one.learn_many(*batch[:5])
    other.learn_many(*batch[:5], np.ones(200))
    assert digest(one) == digest(other)
    open_channels = Channels.from_mechanisms(MECHANISMS[:4])
    known = batch[3] < HIDDEN
    told = [column[known] for column in batch]
    learners = [build(model, open_channels, LearnerSpec(seed=5, **SIZES)) for _ in range(2)]
    learners[0].learn_many(*told[:5])
    learners[1].learn_many(*told[:5], np.zeros(known.sum()))
    assert digest(learners[0]) == digest(learners[1])


@every_model
def test_a_cell_that_is_surely_empty_teaches_nothing_and_a_likelier_one_more(model: str) -> None:
    found = []
    for g in (0.0, 0.1, 0.5, 1.0):
        learner = small(model)
        update = learner.learn_many(*batch_of([(1, 2, 4, HIDDEN, True)], [g]))
        found.append((float(update.error[0]), float(learner.items(np.array([2], np.uint64))[1][0])))
    assert found[0] == (0.0, 0.0)
    assert sorted(found) == found
    assert len(set(found)) == 4


@every_model
def test_the_chance_of_reports_is_a_distribution(model: str) -> None:
    learner = small(model)
    learner.learn_many(*stream(300, 17))
    for c in KNOWN[1:]:
        reports = np.arange(CHANNELS.alphabets[c])
        rows = [(1, 2, int(z), c, False) for z in reports]
        chance = learner.learn_many(*batch_of(rows, [0.3] * len(rows))).probability
        assert chance.sum() == pytest.approx(1)
        assert (chance > 0).all()


@every_model
def test_an_empty_batch_is_a_batch(model: str) -> None:
    learner = small(model)
    before = digest(learner)
    update = learner.learn_many(*batch_of([]))
    assert [len(column) for column in update] == [0, 0, 0, 0]
    assert digest(learner) == before


@pytest.mark.parametrize("model", ["sketch", "literal", "hashing"])
def test_a_sketch_has_a_fixed_size_whatever_ids_arrive(model: str) -> None:
    learner = small(model)
    held = learner.memory_bytes
    assert held <= SIZES["sketch_bytes"] + SIZES["scalars_bytes"] + 100
    random = np.random.default_rng(1)
    u, i = random.integers(0, 2**64, (2, 1000), dtype=np.uint64)
    learner.learn_many(u, i, *stream(1000, 12)[2:])
    assert learner.memory_bytes == held


def test_dense_keeps_rows_in_the_order_of_first_learning() -> None:
    learner = small("dense")
    learner.learn_many(
        *batch_of([(9, 4, 0, 0, True), (7, 4, 0, 0, False), (3, 5, 0, 0, True), (9, 5, 0, 0, True)])
    )
    assert learner.arrays()["user_keys"].tolist() == [9, 3]
    assert learner.arrays()["item_keys"].tolist() == [4, 5]
    assert len(learner.arrays()["user_vectors"]) == 2 * SIZES["factors"]


@pytest.mark.parametrize("factors", [1, 3, 8, 13, 32, 33, 64, 100])
@pytest.mark.parametrize("model", ["sketch"])
def test_any_number_of_factors_works(model: str, factors: int) -> None:
    sizes = {
        "factors": factors,
        "depth": 2,
        "sketch_bytes": 2 * 5 * 4 * factors,
        "scalars_bytes": 128,
    }
    learner = build(model, CHANNELS, LearnerSpec(seed=1, **sizes))
    learner.learn_many(*stream(50, 13))
    width = sizes["sketch_bytes"] // 8
    vectors = naive.Blocked(factors, 2, width, 1, Parameters())
    vectors.C = learner.arrays()["cells"].reshape(2, width).astype(float)
    keys = np.array([3, 2**64 - 1], np.uint64)
    for key, vector in zip(keys.tolist(), learner.items(keys)[0], strict=True):
        assert vector == pytest.approx(vectors.read(1, key), abs=1e-6)


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        ("sketsch", {}),
        ("sketch", {"factors": 0}),
        ("dense", {"factors": 257}),
        ("sketch", {"depth": 0}),
        ("literal", {"depth": 17}),
        ("sketch", {"sketch_bytes": 40}),
        ("sketch", {"scalars_bytes": 63}),
        ("dense", {"seed": -1}),
    ],
)
def test_sizes_that_cannot_be_are_refused(model: str, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values()), "sketsch"))):
        build(model, CHANNELS, LearnerSpec(**(SIZES | {"seed": 1} | wrong)))


@pytest.mark.parametrize(
    "wrong",
    [{"noise": 0.0}, {"clip": 0.0}, {"clip": float("nan")}, {"coupling": 1.0},
     {"user_variance": -1.0}, {"bias_shrink": float("nan")}, {"prior_variance": 0.05}],
)  # fmt: skip
def test_parameters_that_break_the_filter_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Parameters(**wrong)


def history(learner: Learner) -> dict[str, str]:
    learner.learn_many(*stream(120, 14))
    u, i, z, c, _, g = stream(5, 15)
    learner.residuals(u, i, z, c, g)
    learner.forget(u[0])
    return {name: data.hex() for name, data in digest(learner).items()}


def test_the_kernels_are_the_same_without_compilation() -> None:
    """Bit for bit: LLVM neither fuses nor reorders, and the plain lanes are the same sums."""
    script = (
        "import json, warnings; warnings.simplefilter('ignore')\n"
        "from tests.stream_app.models.test_learners import *\n"
        "print(json.dumps({m: history(small(m)) for m in EVERY_MODEL}))"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(  # noqa: PLW1510 (the code is checked below)
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout) == {model: history(small(model)) for model in EVERY_MODEL}
