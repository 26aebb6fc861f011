"""EASE against one regression per item, and its moments under noise."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking import ease
from tests.naive import ranking as naive
from tests.stream_app.ranking.tables import devices, protected, public


@pytest.mark.parametrize("items", [2, 7, 40])
def test_the_closed_form_equals_one_regression_for_each_item(items):
    x = devices(np.random.default_rng(items), users=90, items=items)
    G = ease.moments(public(x))
    assert ease.weights(G, 5.0) == pytest.approx(naive.ease(G, 5.0), abs=1e-5)


@pytest.mark.parametrize("items", [1, 999, 1000, 1001])
def test_the_inverse_by_blocks_is_the_inverse(items):
    random = np.random.default_rng(items)
    x = random.standard_normal((items + 5, items)).astype(np.float32)
    G = x.T @ x
    product = ease.inverse(G, 30.0).astype(float) @ (G + 30.0 * np.eye(items))
    assert np.abs(product - np.eye(items)).max() < 1e-4


def test_an_indefinite_table_gets_a_larger_ridge_and_finite_weights():
    table = np.array([[1, 9, 0], [9, 1, 0], [0, 0, 1]], np.float32)
    inverse = ease.inverse(table, 2.0)
    assert (np.linalg.eigvalsh(inverse) > 0).all()
    assert np.isfinite(ease.weights(table, 2.0)).all()


def test_noised_moments_are_debiased_exactly_as_reports_are():
    random = np.random.default_rng(3)
    x = devices(random, users=25, items=6)
    counts = protected(random, x, 1.0)
    flipped = random.random(x.shape) < 0.3
    reports = np.where(flipped, 1 - x, x)
    counts = public(reports)._replace(channel=(0.7, 0.3))
    expected = naive.debiased_moments(reports, 0.7, 0.3)
    assert ease.moments(counts) == pytest.approx(np.array(expected), abs=1e-3)


def test_noised_moments_are_unbiased():
    """400 tables of 500 devices: each mean has a standard error near .7; 6 of them are allowed."""
    random = np.random.default_rng(8)
    x = devices(random, users=500, items=5, clusters=2)
    found = np.mean([ease.moments(protected(random, x, 1.0)) for _ in range(400)], axis=0)
    error = 500**0.5 / (400**0.5) * 1.2
    assert np.abs(found - ease.moments(public(x))).max() < 6 * error


def test_exposures_that_differ_are_debiased_by_those_of_the_pair():
    counts = public(np.ones((10, 2), np.float32))._replace(channel=(0.75, 0.25))
    counts = counts._replace(
        exposures=np.array([10, 6], np.float32),
        sums=np.array([5, 3], np.float32),
        pairs=np.array([[5, 2], [2, 3]], np.float32),
    )
    expected = (2 - 0.25 * (5 + 3) + 0.25**2 * 6) / 0.5**2
    assert ease.moments(counts)[0, 1] == pytest.approx(expected)


def test_the_ridge_grows_with_noise_devices_and_items_and_with_the_scale_of_a_weight():
    random = np.random.default_rng(1)
    x = devices(random)
    clear = ease.ridge(public(x))
    assert ease.ridge(public(x / 2)) == pytest.approx(clear / 4)
    assert ease.ridge(public(np.tile(x, (4, 1)))) == pytest.approx(2 * clear)
    ridges = [ease.ridge(protected(random, x, epsilon)) for epsilon in (0.5, 1.0, 2.0, 8.0)]
    assert ridges == sorted(ridges, reverse=True)
    assert ridges[0] > 5 * clear
    assert ridges[-1] == pytest.approx(clear * ease.LIKES_RIDGE / ease.RIDGE, rel=0.03)


def test_smaller_weights_of_all_devices_leave_the_links_unchanged():
    counts, half = (public(devices(np.random.default_rng(2)) * scale) for scale in (1, 0.5))
    links = [ease.weights(ease.moments(each), ease.ridge(each)) for each in (counts, half)]
    assert links[0] == pytest.approx(links[1], abs=1e-5)


def test_the_order_of_items_does_not_matter():
    x = devices(np.random.default_rng(4))
    order = np.random.default_rng(5).permutation(x.shape[1])
    B = ease.weights(ease.moments(public(x)), 10.0)
    turned = ease.weights(ease.moments(public(x[:, order])), 10.0)
    assert turned == pytest.approx(B[np.ix_(order, order)], abs=1e-5)


def test_pruning_keeps_the_strongest_of_each_row():
    table = np.random.default_rng(6).standard_normal((9, 30)).astype(np.float32)
    targets, weights = ease.prune(table, 4)
    assert targets.dtype == np.uint16
    for row in range(9):
        strongest = sorted(range(30), key=lambda column: -abs(table[row, column]))[:4]
        assert targets[row].tolist() == sorted(strongest)
        assert weights[row].tolist() == table[row, sorted(strongest)].tolist()


@pytest.mark.parametrize("most", [0, 7, 100])
def test_pruning_is_never_wider_than_the_table(most):
    targets, weights = ease.prune(np.ones((3, 7), np.float32), most)
    assert targets.shape == weights.shape == (3, min(most, 7))
