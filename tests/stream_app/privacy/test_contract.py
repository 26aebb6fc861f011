"""What holds for every mechanism of the table."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource
from tests.stream_app.privacy.checks import check_certificate, check_intervals, check_loss, masks_of
from tests.stream_app.privacy.mechanisms import EVERY_MECHANISM, EVERY_PROTECTING, name

every = pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=name)
protecting = pytest.mark.parametrize("mechanism", EVERY_PROTECTING, ids=name)


def some_masks(mechanism: Mechanism, count: int) -> np.ndarray | None:
    """Return the masks for a release of `count`, each in turn; None where there are none."""
    if not mechanism.masks:
        return None
    return np.resize(np.array(mechanism.masks, np.uint16), count)


@every
def test_an_id_names_its_mechanism(mechanism: Mechanism) -> None:
    assert registry.parse(mechanism.id) == mechanism
    assert mechanism.id.split(":")[0] == mechanism.family
    assert mechanism.family in registry.families()


@every
def test_a_mechanism_is_a_frozen_value(mechanism: Mechanism) -> None:
    with pytest.raises(AttributeError):
        mechanism.levels = 3  # type: ignore[misc]
    assert {mechanism, registry.parse(mechanism.id)} == {mechanism}


@every
def test_the_inputs_are_the_levels_and_missing_where_presence_is_protected(
    mechanism: Mechanism,
) -> None:
    missing = mechanism.adjacency is Adjacency.CELL
    assert mechanism.inputs == mechanism.levels + missing


@every
def test_the_channel_is_a_probability_for_every_input_and_mask(mechanism: Mechanism) -> None:
    shapes = set()
    for mask in masks_of(mechanism):
        channel = mechanism.likelihood(mask)
        shapes.add(channel.shape)
        np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=0, atol=1e-15)
    assert max(shapes) == (mechanism.alphabet, mechanism.inputs)


@every
def test_the_log_likelihood_is_the_logarithm_of_the_channel(mechanism: Mechanism) -> None:
    for mask in masks_of(mechanism):
        channel = mechanism.likelihood(mask)
        with np.errstate(divide="ignore"):
            expected = np.log(channel)
        reports = np.arange(len(channel))[:, None]
        found = mechanism.log_likelihood(reports, np.arange(mechanism.inputs), mask)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@every
def test_no_report_distinguishes_two_inputs_by_more_than_epsilon(mechanism: Mechanism) -> None:
    check_loss(mechanism)


@protecting
def test_every_table_is_proved_and_spends_nearly_all_of_its_epsilon(mechanism: Mechanism) -> None:
    check_certificate(mechanism)


@protecting
def test_what_is_sampled_is_what_is_certified_at_both_ends_of_every_interval(
    mechanism: Mechanism,
) -> None:
    for mask in masks_of(mechanism)[:31]:
        table = mechanism.table(mask)
        assert table is not None
        check_intervals(table)


@every
def test_the_estimates_are_unbiased_for_every_input_or_not_a_number(mechanism: Mechanism) -> None:
    levels = np.arange(mechanism.levels, dtype=np.float64)
    present, wanted = np.ones(mechanism.levels), levels
    if mechanism.adjacency is Adjacency.CELL:
        present, wanted = np.append(present, 0), np.append(levels - levels.mean(), 0)
    channel, reports = (
        mechanism.likelihood(*masks_of(mechanism)[-1:]),
        np.arange(mechanism.alphabet),
    )
    goals = {"presence": present, "value": wanted, "square": wanted**2}
    for quantity, goal in goals.items():
        found = getattr(mechanism, quantity)(reports)
        assert found.dtype == np.float64
        if np.isnan(found).all():
            assert quantity in mechanism.no_estimate, f"no estimate of the {quantity}"
            continue
        atol = 1e-14 * max(1, np.abs(found).max())
        np.testing.assert_allclose(found @ channel, goal, rtol=0, atol=atol)


@every
def test_the_variance_is_that_of_the_value(mechanism: Mechanism) -> None:
    found = mechanism.variance()
    assert found.shape == (mechanism.inputs,)
    value = mechanism.value(np.arange(mechanism.alphabet))
    if np.isnan(value).all():
        assert np.isnan(found).all()
        return
    channel = mechanism.likelihood()
    second = value**2 @ channel
    expected = second - (value @ channel) ** 2
    # Both are a difference of two large numbers here; the mechanism's own is exact.
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14 * max(1, second.max()))


@every
def test_a_release_keeps_shape_and_alphabet_and_leaves_its_input_alone(
    mechanism: Mechanism,
) -> None:
    inputs = np.arange(mechanism.inputs, dtype=np.uint8).repeat(50)
    before = inputs.copy()
    masks = some_masks(mechanism, len(inputs))
    reports = mechanism.release(inputs, SeededSource(1), masks)
    assert reports.dtype == np.uint8
    assert reports.shape == inputs.shape
    assert reports.max() < mechanism.alphabet
    assert not np.shares_memory(reports, inputs)
    np.testing.assert_array_equal(inputs, before)
    none = some_masks(mechanism, 0)
    assert len(mechanism.release(inputs[:0], SeededSource(1), none)) == 0


@every
def test_the_same_seed_releases_the_same_reports(mechanism: Mechanism, seed: int) -> None:
    inputs = np.zeros(20_000, np.uint8)
    masks = some_masks(mechanism, len(inputs))
    whole = mechanism.release(inputs, SeededSource(seed), masks)
    source, cuts = SeededSource(seed), [1, 7, 9000]
    groups = [None] * 4 if masks is None else np.split(masks, cuts)
    parts = [
        mechanism.release(part, source, group)
        for part, group in zip(np.split(inputs, cuts), groups, strict=True)
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


class Untouched:
    """A source that must not be asked."""

    unsafe = True

    def words(self, count: int) -> np.ndarray:
        raise AssertionError("a word was drawn")


@every
def test_an_invalid_input_is_refused_without_its_value_and_before_a_word_is_drawn(
    mechanism: Mechanism,
) -> None:
    outside = mechanism.inputs + 90
    wrong, masks = np.array([0, outside], np.uint8), some_masks(mechanism, 2)
    with pytest.raises(ValueError, match="row 1") as caught:
        mechanism.release(wrong, Untouched(), masks)
    assert str(outside) not in str(caught.value)
    for shape in (np.zeros((2, 2), np.uint8), np.zeros(2, np.int64), np.array([1.0, np.nan]), [0]):
        with pytest.raises(ValueError, match="uint8"):
            mechanism.release(shape, Untouched(), masks)  # type: ignore[arg-type]


@every
def test_masks_belong_to_a_partition_and_to_nothing_else(mechanism: Mechanism) -> None:
    inputs = np.zeros(2, np.uint8)
    given = None if mechanism.masks else np.ones(2, np.uint16)
    with pytest.raises(ValueError, match="masks"):
        mechanism.release(inputs, Untouched(), given)
