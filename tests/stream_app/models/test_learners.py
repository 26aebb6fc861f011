"""The factorizations against the obvious version, and the guarantees of each layout beyond the
contract of `test_learner_contract.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy.ratings.identity import Identity
from tests.naive import learning as naive
from tests.stream_app.models.learners import (
    CHANNELS,
    CLEAN,
    FACTORIZATIONS,
    KNOWN,
    SIZES,
    Batch,
    batch_of,
    batches,
    digest,
    small,
    stream,
)

every_model = pytest.mark.parametrize("model", FACTORIZATIONS)


def naive_of(model: str, parameters: Parameters) -> naive.Learner:
    factors, depth = SIZES["factors"], 1 if model == "hashing" else SIZES["depth"]
    if model == "dense":
        return naive.Learner(naive.Rows(factors, 5, parameters), naive.Scalars(), parameters)
    if model == "hybrid":
        made = small(model)
        assert isinstance(made, HybridLearner)
        scalars = naive.HashedScalars(made.slots["scalars"])
        shared = SIZES["sketch_bytes"] // (4 * factors) - made.rows
        rows = naive.Hybrid(factors, made.rows, shared, 5, parameters, scalars)
        return naive.Learner(rows, scalars, parameters)
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


def taught(model: str, parameters: Parameters, batch: Batch) -> tuple[Learner, naive.Learner]:
    """Return a learner and the obvious one after the same batch, which answered alike."""
    learner, obvious = small(model, parameters), naive_of(model, parameters)
    update, wanted = learner.learn_many(*batch), []
    for u, i, z, c, learn, g in zip(*(column.tolist() for column in batch), strict=True):
        start, channel = CHANNELS.starts[c], CHANNELS.channel(c)
        absent = CHANNELS.absent[start : start + len(channel)] if CHANNELS.presence[c] else None
        answer = obvious.learn(u, i, z, channel, exact=c == CLEAN, learn=learn, absent=absent, g=g)
        wanted.append(answer)
    for found, column in zip(update, zip(*wanted, strict=True), strict=True):
        assert found == pytest.approx(np.array(column, float), rel=2e-4, abs=2e-5, nan_ok=True)
    return learner, obvious


def arrays_of(model: str, obvious: naive.Learner, learner: Learner) -> dict[str, np.ndarray]:
    """Return every array of the state from the dictionaries of the obvious version."""
    found, v, table = learner.arrays(), obvious.v, obvious.s.table  # type: ignore[attr-defined]
    state = {"overall": np.array([obvious.mean, obvious.mean_variance])}
    if model == "dense":
        assert isinstance(v, naive.Rows)
        for side, name in enumerate(("user", "item")):
            keys = found[f"{name}_keys"].tolist()
            assert sorted(keys) == sorted(key for s, key in v.rows if s == side)
            state[f"{name}_keys"] = found[f"{name}_keys"]
            state[f"{name}_vectors"] = np.array([v.rows[side, key] for key in keys]).reshape(-1)
            state[f"{name}_scalars"] = np.array([table[side, key] for key in keys])
        return state
    scalars = np.tile([0.0, 1.0, 1.0], (len(found["tags"]), 1))
    tags = np.zeros(len(scalars), np.uint32)
    for slot, values in table.items():
        scalars[slot] = values
    for slot, tag in obvious.s.tags.items():  # type: ignore[attr-defined]
        tags[slot] = tag
    state |= {"scalars": scalars, "tags": tags}
    if isinstance(v, naive.Hybrid):
        owners = np.zeros(len(scalars), np.int32)
        owners[list(v.own)] = 1 + np.arange(len(v.own))
        unused = np.zeros((v.rows - len(v.own), v.d))
        vectors = np.concatenate([*([x] for x in v.own.values()), unused, v.blocks])
        given = np.array([len(v.own)])
        return state | {"owners": owners, "given": given, "vectors": vectors.reshape(-1)}
    assert isinstance(v, naive.Sketch)
    return state | {"cells": v.C.reshape(-1)}


# Vectors this long and variances this coupled make every term of the step larger than the last
# digits of a float32, which is what two versions may differ by.
LOUD = Parameters(user_sd=0.5, item_sd=0.7, cell_sd=0.6, coupling=0.3, user_variance=0.5,
                  item_variance=0.4, user_shrink=0.3, item_shrink=0.2, bias_shrink=0.25,
                  user_bias_variance=0.6, item_bias_variance=0.8, mean_variance=0.5,
                  noise=1.2, user_drift=0.02, item_drift=0.03, clip=4.0)  # fmt: skip


@every_model
@pytest.mark.parametrize(("seed", "entities"), [(1, 1), (2, 6), (3, 40)])
def test_every_array_is_that_of_the_obvious_version_under_noise(
    model: str, seed: int, entities: int
) -> None:
    """Of one user and one item up to 80 entities, which do not fit a table of 8 slots."""
    u, i, z, c, learn, g = stream(60, seed, users=entities, items=entities)
    assert len(np.unique(c)) == len(KNOWN)
    learner, obvious = taught(model, LOUD, (u, i, z, c, learn, g))
    wanted, found = arrays_of(model, obvious, learner), learner.arrays()
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name] == pytest.approx(array, rel=2e-4, abs=2e-5), name


@every_model
def test_the_variance_of_a_bias_settles_where_drift_and_evidence_balance(model: str) -> None:
    """vb^2 / S = c vb0 for both biases, with S = noise + vbu + vbi where vectors stand still."""
    still = replace(LOUD, user_variance=0.0, item_variance=0.0)
    learner, n = small(model, still), 4000
    z = (np.arange(n) % 5).astype(np.uint8)
    columns = np.zeros(n, np.uint64), np.zeros(n, np.uint64), z, np.zeros(n, np.uint16)
    learner.learn_many(*columns, np.ones(n, np.bool_))
    arrays = learner.arrays()
    held = np.concatenate([arrays[name] for name in arrays if name.endswith("scalars")])[:, 1]
    shares = sorted(held[held < 1].tolist())
    firsts = (still.user_bias_variance, still.item_bias_variance)
    drifts = (still.user_drift, still.item_drift)
    found = [
        tuple(
            share * share * first / (still.noise + pair[0] * firsts[0] + pair[1] * firsts[1])
            for share, first in zip(pair, firsts, strict=True)
        )
        for pair in (shares, shares[::-1])  # the table does not show whose share is whose
    ]
    assert any(each == pytest.approx(drifts, rel=1e-3) for each in found)


@every_model
def test_the_state_never_becomes_infinite_or_not_a_number(model: str) -> None:
    """One user and one item against each other, extreme parameters, a sketch of one block."""
    wild = Parameters(user_variance=99, item_variance=99, user_bias_variance=99, noise=0.01,
                      bias_shrink=50, user_shrink=50, coupling=0.99, prior_slope=0)  # fmt: skip
    one_block = {"factors": 4, "depth": 3, "sketch_bytes": 48, "scalars_bytes": 80}
    learner = build(model, CHANNELS, LearnerSpec(parameters=wild, seed=1, **one_block))
    n = np.arange(20_000)
    for c in KNOWN:
        z = np.where(n % 2, 0, CHANNELS.alphabets[c] - 1).astype(np.uint8)
        keys = (n % 3).astype(np.uint64)
        channels, learn = np.full(len(n), c, np.uint16), np.ones(len(n), np.bool_)
        learner.learn_many(keys, keys, z, channels, learn, (n % 5 / 4).astype(np.float32))
    for array in learner.arrays().values():
        assert np.isfinite(array).all()
    assert np.isfinite(learner.predict_many(keys, keys)).all()


# Vectors and biases that follow every report at once, and no shrinkage that holds them.
FREE = Parameters(user_variance=0, item_variance=0, user_bias_variance=99, item_bias_variance=99,
                  bias_shrink=0, noise=0.01, user_drift=1, item_drift=1)  # fmt: skip


@every_model
@pytest.mark.parametrize(("level", "star", "inside"), [(0, 1.0, 1.15), (4, 5.0, 4.85)])
def test_what_leaves_the_scale_is_held_at_both_ends(
    model: str, level: int, star: float, inside: float
) -> None:
    """Reports of one end always pull further: a prediction is read inside the scale."""
    columns = batch_of([(1, 2, level, CLEAN, True)] * 300)
    learner = small(model, FREE)
    update = learner.learn_many(*columns)
    assert update.predicted[-1] == star
    assert update.error[-1] == pytest.approx(star - inside)
    for read, key in ((learner.users, 1), (learner.items, 2)):
        assert abs(read(np.array([key], np.uint64))[1][0]) == 8
    bound = small(model, replace(FREE, user_bias_variance=0, item_bias_variance=0, mean_variance=9))
    bound.learn_many(*columns)
    assert bound.mean == star


@every_model
def test_a_report_without_noise_is_a_point_of_its_own_scale(model: str) -> None:
    channels = Channels.from_mechanisms([Identity(9)])
    learner = build(model, channels, LearnerSpec(seed=5, parameters=replace(FREE, user_sd=1e-6,
                    item_sd=1e-6, cell_sd=1e-6), **SIZES))  # fmt: skip
    u, i, z, c, learn, _ = batch_of([(1, 2, level, 0, False) for level in range(9)])
    error = learner.learn_many(u, i, z, c, learn).error
    assert error == pytest.approx(np.arange(9) / 2 - 2, abs=1e-6)


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
def test_an_unknown_entity_reads_its_initial_vector_and_no_bias(model: str) -> None:
    vectors, biases = small(model).users(np.array([7, 8], np.uint64))
    assert (vectors != 0).all()
    assert np.abs(vectors).max() < 0.2
    assert (biases == 0).all()


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


# Each compiles for seconds; every width of vectors is checked for every processor elsewhere.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "factors", [13, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 33, 100))]
)
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
    [{"noise": 0.0}, {"clip": 0.0}, {"clip": float("nan")}, {"coupling": 1.0}, {"early_gain": 1.1},
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


@pytest.mark.nightly
def test_the_kernels_are_the_same_without_compilation() -> None:
    """Bit for bit: LLVM neither fuses nor reorders, and uncompiled vectors give the same sums."""
    script = (
        "import json, warnings; warnings.simplefilter('ignore')\n"
        "from tests.stream_app.models.test_learners import *\n"
        "print(json.dumps({m: history(small(m)) for m in FACTORIZATIONS}))"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(  # noqa: PLW1510 (the code is checked below)
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout) == {model: history(small(model)) for model in FACTORIZATIONS}
