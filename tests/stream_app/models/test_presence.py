"""The prior that a cell holds a rating: the kernel against dictionaries and a known truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.factorization.presence_updates import activity, spread
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.presence_rates import (
    PresenceRates,
    Start,
    learn_from,
    report_information,
)
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from tests.naive import presence as naive
from tests.stream_app.models.learners import (
    EVERY_LEARNER,
    digest,
    every_served_learner,
    small,
    stream,
)

OPEN, WEAK, STRONG, THIN, FINE = range(5)
MECHANISMS = (
    RandomizedResponse(5, Fraction(2)),
    RandomizedResponseWithMissing(5, Fraction(1)),
    RandomizedResponseWithMissing(5, Fraction(4)),
    Ternary(5, Fraction(2), Fraction(1, 4)),
    ModifiedLaplace(5, Fraction(2)),
)
CHANNELS = Channels.from_mechanisms(MECHANISMS)
SIZE = 1 << 16
Records = list[tuple[int, int, list[tuple[int, int]]]]  # user, channel, (item, report) of each cell


def columns(records: Records) -> tuple[np.ndarray, ...]:
    """Return counts, users, items, reports, channels."""
    cells = [(u, i, z, c) for u, c, cells in records for i, z in cells]
    u, i, z, c = zip(*cells, strict=True) if cells else ((), (), (), ())
    return (
        np.array([len(cells) for _, _, cells in records], np.int64),
        np.array(u, np.uint64),
        np.array(i, np.uint64),
        np.array(z, np.uint8),
        np.array(c, np.uint16),
    )


@st.composite
def logs(draw: st.DrawFn) -> Records:
    records: Records = []
    for _ in range(draw(st.integers(1, 8))):
        channel = draw(st.integers(0, 4))
        report = st.integers(0, MECHANISMS[channel].alphabet - 1)
        cells = draw(st.lists(st.tuples(st.integers(0, 4), report), max_size=6))
        records.append((draw(st.sampled_from([0, 3, 2**64 - 1])), channel, cells))
    return records


@settings(deadline=None, max_examples=100)
@given(records=logs())
def test_the_kernel_does_what_the_obvious_version_does(records: Records) -> None:
    """Users and items with equal keys, cells that come again, records of public presence."""
    found = PresenceRates(CHANNELS, SIZE).priors(*columns(records)).tolist()
    obvious, wanted = naive.Presence(), []
    for user, channel, cells in records:
        if channel == OPEN:
            wanted += [1.0] * len(cells)
            continue
        reports = np.array([z for _, z in cells], np.int64)
        weights = MECHANISMS[channel].presence(reports).tolist()
        items = [i for i, _ in cells]
        wanted += obvious.priors(user, items, weights, float(report_information(CHANNELS)[channel]))
    assert found == pytest.approx(wanted, rel=1e-5)


@settings(deadline=None, max_examples=40)
@given(records=logs(), cut=st.integers(0, 8))
def test_a_log_may_be_cut_between_any_two_records(records: Records, cut: int) -> None:
    whole, parts = PresenceRates(CHANNELS, SIZE), PresenceRates(CHANNELS, SIZE)
    once = whole.priors(*columns(records))
    twice = [parts.priors(*columns(some)) for some in (records[:cut], records[cut:])]
    assert once.tobytes() == np.concatenate(twice).tobytes()
    for name, array in whole.arrays().items():
        assert array.tobytes() == parts.arrays()[name].tobytes()


def rated(records: int, seed: int, channel: int, cells: int = 20) -> Records:
    """Return records of a world in which three cells of ten hold a rating of 4 or 5 stars."""
    random, mechanism = np.random.default_rng(seed), MECHANISMS[channel]
    shape = records, cells
    levels = np.where(random.random(shape) < 0.3, random.integers(3, 5, shape), 5)
    reports = mechanism.release(levels.reshape(-1).astype(np.uint8), SeededSource(seed))
    rows = reports.reshape(shape).tolist()
    return [(u, channel, list(enumerate(row))) for u, row in enumerate(rows)]


@pytest.mark.parametrize("channel", [WEAK, STRONG, THIN, FINE])
def test_starts_are_those_of_the_obvious_version(channel: int) -> None:
    """The first, and each time that the error of the mean has halved, wherever the log is cut."""
    records = [*rated(100, 4, channel), (1, OPEN, [(1, 2)]), *rated(60, 5, STRONG)]
    wanted, obvious, cell = [], naive.Mean(), 0
    for _, c, cells in records:
        rows = CHANNELS.starts[c] + np.array([z for _, z in cells])
        sums = CHANNELS.value[rows].tolist(), CHANNELS.weight[rows].tolist()
        information = float(report_information(CHANNELS)[c])
        start = obvious.start(*sums, information) if c != OPEN else None
        wanted += [(cell, *start)] if start else []
        cell += len(cells)
    assert wanted[0] == (0, 3.85, 0.25)
    assert len(wanted) >= 3
    for cut in (0, 1, 70, 130):
        presence, found, begin = PresenceRates(CHANNELS, SIZE), [], 0
        for part in (records[:cut], records[cut:]):
            presence.priors(*columns(part))
            found += [(begin + cell, mean, s2) for cell, mean, s2 in presence.starts]
            begin = sum(len(cells) for _, _, cells in part)
        assert found == [pytest.approx(start, rel=1e-6) for start in wanted]


@pytest.mark.statistical
def test_the_mean_of_the_reports_is_found_through_fakes() -> None:
    """60,000 cells at epsilon 4, true mean 4.5; the last start lies within six of its standard
    errors (false alarm 2e-9), which are a quarter of the distance to mid-scale at most."""
    presence = PresenceRates(CHANNELS, SIZE)
    presence.priors(*columns(rated(3000, 9, STRONG)))
    _, mean, variance = presence.starts[-1]
    assert abs(mean - 4.5) < 6 * np.sqrt(variance)
    assert np.sqrt(variance) < 1.5 / 4


@pytest.mark.parametrize("model", EVERY_LEARNER)
def test_a_learner_starts_from_the_mean_at_its_cell_unless_it_is_surer(model: str) -> None:
    u, i, z, c, learn, g = stream(200, 6)
    left, right = small(model), small(model)
    starts = [Start(0, 4.4, 1e-4), Start(120, 2.0, 1e3)]
    update = learn_from(left, starts, (u, i, z, c, learn, g))
    right.start_mean(4.4, 1e-4)
    assert right.mean == 4.4
    wanted = right.learn_many(u, i, z, c, learn, g)
    assert digest(left) == digest(right)
    for a, b in zip(update, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
    late = small(model)
    learn_from(late, [Start(120, 4.4, 1e-6)], (u, i, z, c, learn, g))
    assert digest(late) != digest(left)


@every_served_learner
def test_a_start_marks_the_page_that_it_changes(model: str) -> None:
    made = small(model)
    for pages in made.dirty_pages().values():  # type: ignore[attr-defined]
        pages[:] = 0
    made.start_mean(4.0, 1e-4)
    assert made.dirty_pages()["overall"].all()  # type: ignore[attr-defined]


def test_records_of_public_presence_leave_the_state_untouched() -> None:
    found = PresenceRates(CHANNELS, SIZE)
    assert (found.priors(*columns([(1, OPEN, [(1, 0), (2, 4)])])) == 1).all()
    assert not any(array.any() for array in found.arrays().values())
    assert np.isnan(found.rate)


def test_a_whole_record_is_counted_before_its_priors() -> None:
    """The prior of the first cell includes the last one: a user is equally active in all cells."""
    quiet = [(i, 5) for i in range(40)]
    busy = [(i, 0) for i in range(40)]
    found = [
        PresenceRates(CHANNELS, SIZE).priors(*columns([(1, STRONG, c)]))[0] for c in (quiet, busy)
    ]
    assert found[0] < 0.1 < found[1]


@pytest.mark.parametrize("channel", [WEAK, STRONG, THIN, FINE])
@pytest.mark.statistical
def test_rates_of_items_and_users_are_found_through_the_noise(channel: int) -> None:
    """2,000 users of two kinds, 40 items of two kinds, one report a cell; seed 5.

    The rates are .06, .12, .24, .48, their mean .225. Over 20 seeds the overall rate deviates by at
    most .0063 and the distance between the two kinds of item, .2 to .26 as shrunken, by .01, so
    both margins exceed six deviations (false alarm below 1e-6). At epsilon 4 each of the four means
    deviates by .005 and lies within .05 of its rate. Without debiasing the rates are .65 and more
    for all under `cell:5:1`, where two thirds of the empty cells are published.
    """
    random, mechanism = np.random.default_rng(5), MECHANISMS[channel]
    busy, popular = np.arange(2000) % 2, np.arange(40) % 2
    rates = 0.06 * 2.0 ** (busy[:, None] + 2 * popular[None, :])
    rated = random.random(rates.shape) < rates
    levels = np.where(rated, random.integers(0, 5, rates.shape), 5).astype(np.uint8)
    reports = mechanism.release(levels.reshape(-1), SeededSource(6))
    presence = PresenceRates(CHANNELS, SIZE)
    priors = presence.priors(
        np.full(2000, 40),
        np.repeat(np.arange(2000, dtype=np.uint64), 40),
        np.tile(np.arange(40, dtype=np.uint64), 2000),
        reports,
        np.full(80_000, channel, np.uint16),
    ).reshape(2000, 40)[1000:]
    assert presence.rate == pytest.approx(0.225, abs=0.045)
    means = [priors[b::2, p::2].mean() for b in (0, 1) for p in (0, 1)]
    assert means[1] + means[3] - means[0] - means[2] > 2 * 0.1
    if channel == STRONG:
        assert means == pytest.approx([0.06, 0.24, 0.12, 0.48], abs=0.08)


@pytest.mark.parametrize(("popular", "least", "most"), [(1.0, 0.0, 0.65), (40.0, 1.95, 2.5)])
@pytest.mark.statistical
def test_the_spread_of_the_items_is_found_through_the_noise(
    popular: float, least: float, most: float
) -> None:
    """1,000 users, 80 items at epsilon 4, all rated by 1 % or ten of them by 40 %: spreads of 0 and
    2.2 times the mean. Over 20 seeds the estimates are .22 .. .40 and 2.14 .. 2.31 with deviations
    of .045; the bounds are six of these away (false alarm below 1e-6)."""
    random, mechanism = np.random.default_rng(5), MECHANISMS[STRONG]
    rates = np.where(np.arange(80) < 10, 0.01 * popular, 0.01)
    levels = np.where(random.random((1000, 80)) < rates, random.integers(0, 5, (1000, 80)), 5)
    reports = mechanism.release(levels.reshape(-1).astype(np.uint8), SeededSource(6))
    presence = PresenceRates(CHANNELS, SIZE)
    presence.priors(
        np.full(1000, 80),
        np.repeat(np.arange(1000, dtype=np.uint64), 80),
        np.tile(np.arange(80, dtype=np.uint64), 1000),
        reports,
        np.full(80_000, STRONG, np.uint16),
    )
    found = np.sqrt(spread(presence.arrays()["overall"], presence.rate)) / presence.rate
    assert least <= found <= most


def test_activity_moves_from_the_mean_to_the_counted_ratio_with_information() -> None:
    """Little information leaves the mean of all, which is 1; much of it the quotient itself."""
    assert activity(0.0, 1e-9, 1e-9) == pytest.approx(1, abs=0.04)
    assert activity(3e6, 1e7, 1e6) == pytest.approx(3, rel=0.06)
    assert activity(-1e6, 1e7, 1e6) == pytest.approx(np.exp(-3), rel=1e-6)
    assert activity(1e9, 1e7, 1e6) == pytest.approx(np.exp(2), rel=1e-6)
    estimates = [activity(x, 50.0, 10.0) for x in (-10.0, 5.0, 10.0, 20.0)]
    assert estimates == sorted(estimates)


def test_a_report_counts_by_the_information_of_its_channel() -> None:
    """One over the variance of the presence estimate; thinning and noise lower it."""
    found = report_information(CHANNELS)
    assert found[OPEN] == 0
    assert found[STRONG] > found[FINE] > found[WEAK] > 0
    p = RandomizedResponseWithMissing(5, Fraction(1)).likelihood()
    published = 1 - (0.1 * p[5, 0] + 0.9 * p[5, 5])
    variance = published * (1 - published) / (p[0, 0] - p[0, 5]) ** 2
    assert 1 / found[WEAK] == pytest.approx(variance)


def test_the_memory_is_fixed_whatever_ids_arrive() -> None:
    presence = PresenceRates(CHANNELS, 400)
    held = presence.memory_bytes
    assert held <= 400 + 32
    keys = np.random.default_rng(1).integers(0, 2**64, (2, 500), dtype=np.uint64)
    channels = np.full(500, STRONG, np.uint16)
    reports = (np.arange(500) % 6).astype(np.uint8)
    priors = presence.priors(
        np.full(50, 10), np.repeat(keys[0, :50], 10), keys[1], reports, channels
    )
    assert presence.memory_bytes == held
    assert ((priors > 0) & (priors < 1)).all()


def test_the_state_stays_finite_under_a_flood() -> None:
    """Everything published, or nothing: the debiased rates leave 0 .. 1, the priors do not."""
    for report in (0, 5):
        presence = PresenceRates(CHANNELS, 400)
        cells = [(i % 7, report) for i in range(3000)]
        priors = presence.priors(*columns([(1, WEAK, cells), (2, WEAK, cells)]))
        assert np.isfinite(priors).all()
        assert ((priors >= 0.001) & (priors <= 0.95)).all()


@pytest.mark.parametrize("size", [0, 79])
def test_a_table_without_a_bucket_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"presence_bytes {size}"):
        PresenceRates(CHANNELS, size)


def history() -> str:
    presence = PresenceRates(CHANNELS, 400)
    random = np.random.default_rng(2)
    records: Records = [
        (int(random.integers(9)), c % 5, [(int(i), int(i) % 3) for i in random.integers(0, 30, 8)])
        for c in range(40)
    ]
    priors = presence.priors(*columns(records))
    return "".join(a.tobytes().hex() for a in (priors, *presence.arrays().values()))


@pytest.mark.nightly
def test_the_kernel_is_the_same_without_compilation() -> None:
    script = (
        "import json, warnings; warnings.simplefilter('ignore')\n"
        "from tests.stream_app.models.test_presence import *\n"
        "print(json.dumps(history()))"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(  # noqa: PLW1510 (the code is checked below)
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout) == history()
