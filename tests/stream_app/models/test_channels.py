"""Channels as tables: refused inputs, the face value of a report, and exact debiasing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stream_app.models.factorization.channels import MAX_CHANNELS, NO_CHANNEL, Channels, stars_of
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from tests.stream_app.privacy.mechanisms import EVERY_MECHANISM, name


class Given:
    """A mechanism with a channel made for a test."""

    id, family, masks = "given", "given", range(0)

    def __init__(self, channel: np.ndarray, levels: int | None = None) -> None:
        self.channel = np.asarray(channel, float)
        self.alphabet, self.inputs = self.channel.shape
        self.levels = levels or self.inputs

    def likelihood(self, mask: int = 0) -> np.ndarray:
        return self.channel

    def presence(self, reports: np.ndarray) -> np.ndarray:
        return np.ones(len(reports))

    value = square = presence


def whole(channels: Channels, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of channel c, and P(z | input) with "no rating" last where it is hidden."""
    rows = channels.rows(np.full(channels.alphabets[c], c), np.arange(channels.alphabets[c]))
    channel = channels.channel(c)
    if not channels.presence[c]:
        return rows, channel
    return rows, np.concatenate((channel, channels.absent[rows][:, None]), axis=1)


of_stars = pytest.mark.parametrize(
    "mechanism", [each for each in EVERY_MECHANISM if not isinstance(each, Like)], ids=name
)


@of_stars
def test_every_channel_is_the_mechanisms_own(mechanism: Mechanism) -> None:
    channels = Channels.from_mechanisms([mechanism])
    for mask in mechanism.masks or (0,):
        c = int(channels.numbers(np.array([0]), np.array([mask], np.uint16))[0])
        rows, channel = whole(channels, c)
        assert (channel == mechanism.likelihood(mask)).all()
        assert channel.sum(0) == pytest.approx(1)
        assert channels.uniform[rows] == pytest.approx(channel[:, : mechanism.levels].mean(1))
        assert channels.presence[c] == (mechanism.inputs > mechanism.levels)
        assert channels.missing[c] == (mechanism.alphabet - 1 if channels.presence[c] else -1)
        if not channels.presence[c]:
            assert (channels.absent[rows] == 0).all()


@of_stars
def test_the_debiased_squared_error_is_exact_for_every_rating_and_prediction(
    mechanism: Mechanism,
) -> None:
    """E[f_t(z) | r] = (r - t)^2 and 0 without a rating, by summing over all reports."""
    channels = Channels.from_mechanisms([mechanism])
    c = int(channels.numbers(np.array([0]), mechanism.masks[-1] if mechanism.masks else 0)[0])
    rows, channel = whole(channels, c)
    value, square, weight = (
        table[rows] for table in (channels.value, channels.square, channels.weight)
    )
    rated, stars = np.arange(channel.shape[1]) < mechanism.levels, stars_of(mechanism.levels)
    assert channel.T @ weight == pytest.approx(rated * 1.0, abs=1e-9 * np.abs(weight).max())
    if not channels.inverted[c]:
        assert np.isnan(square).all()
        return
    for t in (1.0, 2.7, 5.0, -3.0):
        f = square - 2 * t * value + t * t * weight
        wanted = np.zeros(channel.shape[1])
        wanted[rated] = (stars - t) ** 2
        assert channel.T @ f == pytest.approx(wanted, abs=1e-12 * np.abs(f).max() + 1e-9)


def test_which_channels_can_be_inverted() -> None:
    """A bit that names one of two levels can be inverted; a partition cannot."""
    for mechanism in EVERY_MECHANISM:
        has_none = mechanism.family in ("partition", "like") or (
            mechanism.family == "ternary" and mechanism.levels > 2
        )
        assert Channels.from_mechanisms([mechanism]).inverted[-1] != has_none


@pytest.mark.parametrize(
    "mechanism", [each for each in EVERY_MECHANISM if isinstance(each, Like)], ids=name
)
def test_a_like_is_a_rating_of_two_levels_of_every_cell(mechanism: Like) -> None:
    channels = Channels.from_mechanisms([mechanism])
    own = mechanism.likelihood()
    for v in range(mechanism.inputs):
        bit = int(mechanism.threshold <= v < mechanism.levels)
        assert channels.channel(0)[:, bit].tolist() == own[:, v].tolist()
        # The value is unbiased for 5 where there is a like and 1 elsewhere, empty cells included.
        assert channels.value @ own[:, v] == pytest.approx(1 + 4 * bit)
    assert channels.levels.tolist() == [2]
    assert (channels.missing.tolist(), channels.presence.tolist()) == ([1], [True])
    assert channels.likes.tolist() == [True]
    assert channels.absent.tolist() == own[:, mechanism.levels].tolist()
    assert (channels.weight == 1).all()
    assert np.isnan([channels.square, channels.face_value]).all()


def test_a_report_reads_as_the_rating_on_one_to_five() -> None:
    channels = Channels.from_mechanisms([Given(np.eye(5)), Given(np.eye(10)), Given(np.eye(2))])
    numbers = np.array([0, 0, 1, 1, 2, 2], np.uint8)
    rows = channels.rows(numbers, np.array([0, 3, 0, 9, 0, 1], np.uint8))
    assert channels.face_value[rows].tolist() == [1, 4, 1, 5, 1, 5]
    assert channels.exact.all()


def test_a_group_of_levels_reads_as_its_middle_and_no_rating_as_nothing() -> None:
    mechanisms = [
        PartitionResponse(5, Fraction(1)),
        RandomizedResponseWithMissing(5, Fraction(1)),
        registry.parse("ternary:5:2"),
    ]
    channels = Channels.from_mechanisms(mechanisms)
    rows, _ = whole(channels, 0b0100)
    assert channels.face_value[rows].tolist() == [2, 4.5]
    rows, _ = whole(channels, int(channels.first[1]))
    assert channels.face_value[rows[:5]].tolist() == [1, 2, 3, 4, 5]
    assert np.isnan(channels.face_value[rows[5]])
    rows, _ = whole(channels, int(channels.first[2]))
    assert channels.face_value[rows[:2]].tolist() == [2, 4]


def test_a_report_that_is_no_levels_likeliest_reads_between_its_neighbours() -> None:
    channel = np.array([[0.6, 0.1], [0.3, 0.3], [0.1, 0.6]])
    assert Channels.from_mechanisms([Given(channel)]).face_value.tolist() == [1, 3, 5]


def test_a_number_names_a_mechanism_and_its_mask() -> None:
    mechanisms = [
        PartitionResponse(4, Fraction(1)),
        RandomizedResponse(5, Fraction(2)),
        Identity(3),
    ]
    channels = Channels.from_mechanisms(mechanisms)
    assert channels.first.tolist() == [0, 8, 9]
    assert len(channels) == 10
    assert channels.alphabets.tolist() == [0, 2, 2, 3, 2, 3, 3, 4, 5, 3]
    assert channels.numbers(np.array([0, 0, 1, 2]), np.array([1, 7, 0, 0])).tolist() == [1, 7, 8, 9]
    assert channels.numbers(np.array([0, 1])).dtype == np.uint16


def test_channel_numbers_fit_sixteen_bits_and_one_number_is_never_given() -> None:
    class Wide(Given):
        masks = range(1, MAX_CHANNELS)

        def likelihood(self, mask: int = 0) -> np.ndarray:
            return np.eye(2)

    assert NO_CHANNEL == 2**16 - 1 >= MAX_CHANNELS
    with pytest.raises(ValueError, match="65536 channels"):
        Channels.from_mechanisms([Wide(np.eye(2)), Given(np.eye(2))])


def test_a_long_list_of_channels_takes_the_room_of_its_entries() -> None:
    """Ten levels: 511 channels of 2,815 reports, 0.4 MB; beside one of 256 levels 6 MB."""
    channels = Channels.from_mechanisms([PartitionResponse(10, Fraction(2))])
    assert len(channels) == 512
    assert len(channels.likelihood) == 2815
    assert channels.memory_bytes < 450_000
    wide = Channels.from_mechanisms([PartitionResponse(10, Fraction(2)), Identity(256)])
    assert wide.memory_bytes < 7_000_000


def test_mechanisms_of_different_sizes_share_the_tables() -> None:
    channels = Channels.from_mechanisms([Given(np.eye(2)), Given(np.full((5, 5), 0.2))])
    assert channels.likelihood.shape == (7, 5)
    assert channels.starts.tolist() == [0, 2]
    assert channels.alphabets.tolist() == channels.levels.tolist() == [2, 5]
    assert channels.exact.tolist() == [True, False]
    assert (channels.likelihood[:2, 2:] == 0).all()


@pytest.mark.parametrize(
    ("channel", "levels", "message"),
    [
        ([[1.0], [0.0]], None, "levels"),
        ([[0.5, 0.5], [0.4, 0.5]], None, "sum"),
        ([[1.5, 0.5], [-0.5, 0.5]], None, "negative"),
        ([[np.nan, 0.5], [0.5, 0.5]], None, "number"),
        (np.eye(4), 2, "shape"),
        (np.ones((1, 3)), 2, "single report"),
    ],
)
def test_an_invalid_channel_is_refused(channel, levels: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channels.from_mechanisms([Given(np.array(channel), levels)])


def test_an_allow_list_has_between_one_and_256_mechanisms() -> None:
    for many in (0, 257):
        with pytest.raises(ValueError, match=str(many)):
            Channels.from_mechanisms([Given(np.eye(2))] * many)
