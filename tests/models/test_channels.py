"""Channels as tables: what is refused, how a report reads as a rating, and exact debiasing."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.models.channels import Channels, stars_of
from tests.privacy.mechanisms import EVERY_MECHANISM, name


class Given:
    """A mechanism with a channel made for a test."""

    id, family = "given", "given"

    def __init__(self, channel: np.ndarray) -> None:
        self.channel = np.asarray(channel, float)
        self.alphabet, self.levels = self.channel.shape

    def likelihood(self) -> np.ndarray:
        return self.channel


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=name)
def test_the_debiased_squared_error_is_exact_for_every_rating_and_prediction(mechanism):
    """E[f_t(z) | r] = (r - t)^2, by summing over all reports."""
    channels = Channels.of([mechanism])
    reports = np.arange(mechanism.alphabet)
    zeros, channel = np.zeros_like(reports), mechanism.likelihood()
    for t in (1.0, 2.7, 5.0, -3.0):
        f = channels.squared_errors(np.full(len(reports), t), zeros, reports)
        stars = stars_of(mechanism.levels)
        scale = np.abs(f).max()
        assert channel.T @ f == pytest.approx((stars - t) ** 2, abs=1e-12 * scale + 1e-9)
    value, square = channels.value[0], channels.square[0]
    assert channel.T @ value == pytest.approx(stars)
    assert channel.T @ square == pytest.approx(stars**2)


def test_a_channel_with_more_reports_than_levels_is_debiased_by_the_least_norm():
    channel = np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])
    channels = Channels.of([Given(channel)])
    assert channel.T @ channels.value[0] == pytest.approx([1, 5])
    assert np.linalg.norm(channels.value[0]) <= np.linalg.norm([1.0, 5.0]) * 10


@pytest.mark.parametrize(
    "channel",
    [np.full((5, 5), 0.2), [[0.8, 0.8, 0.2], [0.2, 0.2, 0.8]]],
    ids=["epsilon 0", "a partition"],
)
def test_a_channel_that_cannot_be_inverted_says_nan(channel):
    channels = Channels.of([Given(np.array(channel))])
    assert np.isnan(channels.value).all()
    assert np.isnan(channels.square).all()


def test_a_report_reads_as_the_rating_on_one_to_five():
    channels = Channels.of([Given(np.eye(5)), Given(np.eye(10)), Given(np.eye(2))])
    mechanisms = np.array([0, 0, 1, 1, 2, 2], np.uint8)
    reports = np.array([0, 3, 0, 9, 0, 1], np.uint8)
    assert channels.stars(mechanisms, reports).tolist() == [1, 4, 1, 5, 1, 5]
    assert channels.exact.all()


def test_mechanisms_of_different_sizes_share_the_tables():
    channels = Channels.of([Given(np.eye(2)), Given(np.full((5, 5), 0.2))])
    assert channels.likelihood.shape == (2, 5, 5)
    assert channels.alphabets.tolist() == channels.levels.tolist() == [2, 5]
    assert channels.exact.tolist() == [True, False]
    assert len(channels) == 2


@pytest.mark.parametrize(
    ("channel", "why"),
    [
        ([[1.0], [0.0]], "levels"),
        ([[0.5, 0.5], [0.4, 0.5]], "sum"),
        ([[1.5, 0.5], [-0.5, 0.5]], "negative"),
        ([[np.nan, 0.5], [0.5, 0.5]], "number"),
    ],
)
def test_what_is_not_a_channel_is_refused(channel, why):
    with pytest.raises(ValueError, match=why):
        Channels.of([Given(np.array(channel))])


def test_an_allow_list_has_between_one_and_256_mechanisms():
    for many in (0, 257):
        with pytest.raises(ValueError, match=str(many)):
            Channels.of([Given(np.eye(2))] * many)
