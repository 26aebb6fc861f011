"""Responses over a partition of the levels: groups, masks, and nothing drawn for a wrong one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ticket import TicketIssuer
from tests.stream_app.privacy.mechanisms import EPSILONS, EVERY_PARTITION, name

every = pytest.mark.parametrize("mechanism", EVERY_PARTITION, ids=name)


class Untouched:
    unsafe = True

    def words(self, count: int) -> np.ndarray:
        raise AssertionError("a word was drawn")


@pytest.mark.parametrize(
    ("mask", "groups"),
    [(0b0001, [0, 1, 1, 1, 1]), (0b0100, [0, 0, 0, 1, 1]), (0b1000, [0, 0, 0, 0, 1]),
     (0b1010, [0, 0, 1, 1, 2]), (0b1111, [0, 1, 2, 3, 4])],
)  # fmt: skip
def test_a_set_bit_ends_a_group_after_its_level(mask: int, groups: list[int]) -> None:
    assert PartitionResponse(5, Fraction(2)).groups(mask).tolist() == groups


@every
def test_every_mask_cuts_the_scale_into_groups_one_after_another(
    mechanism: PartitionResponse,
) -> None:
    assert len(mechanism.masks) == 2 ** (mechanism.levels - 1) - 1
    seen = set()
    for mask in mechanism.masks:
        groups = mechanism.groups(mask)
        assert groups[0] == 0
        assert set(np.diff(groups.astype(int))) <= {0, 1}
        assert groups[-1] == mask.bit_count() >= 1
        assert mechanism.likelihood(mask).shape == (mask.bit_count() + 1, mechanism.levels)
        seen.add(tuple(groups))
    assert len(seen) == len(mechanism.masks)


@every
def test_a_mask_of_single_levels_is_randomized_response(mechanism: PartitionResponse) -> None:
    finest = mechanism.masks[-1]
    plain = RandomizedResponse(mechanism.levels, mechanism.epsilon)
    np.testing.assert_array_equal(mechanism.likelihood(finest), plain.likelihood())
    levels = np.arange(1000, dtype=np.uint8) % np.uint8(mechanism.levels)
    masks = np.full(1000, finest, np.uint16)
    found = mechanism.release(levels, SeededSource(4), masks)
    np.testing.assert_array_equal(found, plain.release(levels, SeededSource(4)))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_levels_of_one_group_cannot_be_distinguished_at_all(epsilon: Fraction) -> None:
    mechanism = PartitionResponse(5, epsilon)
    for mask in mechanism.masks:
        channel, groups = mechanism.likelihood(mask), mechanism.groups(mask)
        for group in set(groups.tolist()):
            columns = channel[:, groups == group]
            assert (columns == columns[:, :1]).all()


def test_a_release_of_mixed_masks_is_that_of_each_row_alone() -> None:
    mechanism = PartitionResponse(5, Fraction(1))
    rng = np.random.default_rng(3)
    levels = rng.integers(0, 5, 300).astype(np.uint8)
    masks = rng.integers(1, 16, 300).astype(np.uint16)
    whole, source = mechanism.release(levels, SeededSource(8), masks), SeededSource(8)
    rows = [
        mechanism.release(levels[i : i + 1], source, masks[i : i + 1])[0]
        for i in range(len(levels))
    ]
    assert whole.tolist() == rows
    assert (whole <= [int(mask).bit_count() for mask in masks]).all()


@pytest.mark.parametrize("wrong", [0, 16, 65535])
def test_one_wrong_mask_releases_nothing_and_is_named(wrong: int) -> None:
    mechanism = PartitionResponse(5, Fraction(2))
    masks = np.array([1, 4, wrong], np.uint16)
    with pytest.raises(ValueError, match=rf"row 2: mask {wrong} is not in 1 to 15"):
        mechanism.release(np.zeros(3, np.uint8), Untouched(), masks)


def test_a_wrong_mask_does_not_use_up_the_ticket() -> None:
    mechanism = PartitionResponse(5, Fraction(2))
    issuer = TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    ticket = issuer.ticket(mechanism, 1)
    with pytest.raises(ValueError, match="mask 0"):
        mechanism.release(np.zeros(1, np.uint8), ticket, np.zeros(1, np.uint16))
    assert len(mechanism.release(np.zeros(1, np.uint8), ticket, np.ones(1, np.uint16))) == 1


@pytest.mark.parametrize(
    "masks",
    [None, np.ones(2, np.uint16), np.ones(3, np.int64), np.ones((3, 1), np.uint16), [1, 1, 1]],
    ids=["none", "too few", "signed", "two dimensions", "a list"],
)
def test_masks_of_another_shape_are_refused(masks: object) -> None:
    with pytest.raises(ValueError, match="mask"):
        PartitionResponse(5, Fraction(2)).release(np.zeros(3, np.uint8), Untouched(), masks)  # type: ignore[arg-type]


@pytest.mark.parametrize("mask", [0, -1, 16])
def test_no_channel_has_a_mask_that_there_is_not(mask: int) -> None:
    mechanism = PartitionResponse(5, Fraction(2))
    for asked in (mechanism.table, mechanism.likelihood, mechanism.groups):
        with pytest.raises(ValueError, match="1 to 15"):
            asked(mask)


@pytest.mark.parametrize("levels", [1, 12, 0, True, 5.0])
def test_a_scale_of_other_than_two_to_eleven_levels_is_refused(levels: object) -> None:
    with pytest.raises(ValueError, match="2 to 11"):
        PartitionResponse(levels, Fraction(1))  # type: ignore[arg-type]


def test_eleven_levels_have_a_mask_for_every_cut() -> None:
    mechanism = PartitionResponse(11, Fraction(2))
    assert mechanism.masks == range(1, 1024)
    assert len(mechanism.certify()) == 10
