"""What holds for every mechanism of the table."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from tests.privacy.mechanisms import EVERY_MECHANISM, name

every = pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=name)


@every
def test_an_id_names_its_mechanism(mechanism: Mechanism) -> None:
    assert registry.parse(mechanism.id) == mechanism
    assert mechanism.id.split(":")[0] == mechanism.family


@every
def test_a_mechanism_is_a_frozen_value(mechanism: Mechanism) -> None:
    with pytest.raises(AttributeError):
        mechanism.levels = 3  # type: ignore[misc]
    assert {mechanism, registry.parse(mechanism.id)} == {mechanism}


@every
def test_the_channel_is_a_probability_for_every_level(mechanism: Mechanism) -> None:
    channel = mechanism.likelihood()
    assert channel.shape == (mechanism.alphabet, mechanism.levels)
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=0, atol=1e-15)


@every
def test_the_log_likelihood_is_the_logarithm_of_the_channel(mechanism: Mechanism) -> None:
    reports = np.arange(mechanism.alphabet)[:, None]
    with np.errstate(divide="ignore"):
        expected = np.log(mechanism.likelihood())
    found = mechanism.log_likelihood(reports, np.arange(mechanism.levels))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@every
def test_no_report_tells_two_levels_apart_by_more_than_epsilon(mechanism: Mechanism) -> None:
    if mechanism.epsilon is None:
        assert mechanism.adjacency is Adjacency.NOTHING
        return
    reports = np.arange(mechanism.alphabet)[:, None]
    loss = mechanism.log_likelihood(reports, np.arange(mechanism.levels))
    assert (loss.max(axis=1) - loss.min(axis=1)).max() <= float(mechanism.epsilon)


@every
def test_the_estimates_are_unbiased_for_every_level(mechanism: Mechanism) -> None:
    channel, reports = mechanism.likelihood(), np.arange(mechanism.alphabet)
    levels = np.arange(mechanism.levels)
    size = np.abs(mechanism.square(reports)).max()
    np.testing.assert_allclose(
        mechanism.value(reports) @ channel, levels, rtol=0, atol=1e-14 * size
    )
    np.testing.assert_allclose(
        mechanism.square(reports) @ channel, levels**2, rtol=0, atol=1e-14 * size
    )
    second = mechanism.value(reports) ** 2 @ channel
    np.testing.assert_allclose(
        mechanism.variance(),
        second - levels**2,
        rtol=1e-12,
        atol=1e-9 * max(1, second.max() * 1e-3),
    )


@every
def test_a_release_keeps_shape_and_alphabet_and_leaves_its_input_alone(
    mechanism: Mechanism,
) -> None:
    levels = np.arange(mechanism.levels, dtype=np.uint8).repeat(50)
    before = levels.copy()
    reports = mechanism.release(levels, SeededSource(1))
    assert reports.dtype == np.uint8
    assert reports.shape == levels.shape
    assert reports.max() < mechanism.alphabet
    assert not np.shares_memory(reports, levels)
    np.testing.assert_array_equal(levels, before)
    assert len(mechanism.release(levels[:0], SeededSource(1))) == 0


@every
def test_the_same_seed_releases_the_same_reports(mechanism: Mechanism, seed: int) -> None:
    levels = np.zeros(20_000, np.uint8)
    whole = mechanism.release(levels, SeededSource(seed))
    source = SeededSource(seed)
    parts = [mechanism.release(part, source) for part in np.split(levels, [1, 7, 9000])]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@every
def test_a_level_off_the_scale_is_refused_without_being_told(mechanism: Mechanism) -> None:
    wrong = np.array([0, mechanism.levels + 90], np.uint8)
    with pytest.raises(ValueError, match="row 1") as caught:
        mechanism.release(wrong, SeededSource(1))
    assert str(mechanism.levels + 90) not in str(caught.value)
    for shape in (np.zeros((2, 2), np.uint8), np.zeros(2, np.int64), [0, 1]):
        with pytest.raises(ValueError, match="uint8"):
            mechanism.release(shape, SeededSource(1))  # type: ignore[arg-type]
