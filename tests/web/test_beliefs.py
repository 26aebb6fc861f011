"""What the page concludes from reports, and the words of its numbers, against Python's numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy import registry
from tests.fixtures.browser import serving
from tests.web.small_gateway import WEB

MECHANISMS = ("rr:5:2", "rr:5:1/2", "rr:2:4", "rr:10:1", "rr:5:1/1000")
LOAD = """async () => {
  for (const name of ["beliefs", "words", "projection"]) {
    globalThis[name] = await import(`/${name}.js`);
  }
}"""


@pytest.fixture(scope="module")
def modules(browser):
    with serving(WEB) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/page.css")
        page.evaluate(LOAD)
        yield page


def counts_of(id: str) -> list[list[int]]:
    table = registry.parse(id).table()
    assert table is not None
    return [[int(count) for count in row] for row in table.counts]


def as_text(counts: list[list[int]]) -> list[list[str]]:
    return [[str(count) for count in row] for row in counts]


def beliefs(counts: list[list[int]], prior: list[float]) -> list[list[float]]:
    """Return the exact posterior of every report, by Bayes on integers."""
    shares = [Fraction(share) for share in prior]
    columns = [
        [share * row[report] for share, row in zip(shares, counts, strict=True)]
        for report in range(len(counts))
    ]
    return [[float(weight / sum(column)) for weight in column] for column in columns]


@pytest.mark.parametrize("id", MECHANISMS)
@pytest.mark.parametrize("mean", [1.0, 2.2, 3.0, 4.61, 5.0])
def test_the_belief_after_each_report_is_that_of_the_exact_table(modules, id, mean) -> None:
    counts = counts_of(id)
    prior, found = modules.evaluate(
        """([counts, mean]) => {
          const prior = beliefs.priorOf(counts.length, mean);
          const channel = beliefs.channelOf(counts);
          return [prior, counts.map((_, z) => beliefs.posterior(channel, prior, z))];
        }""",
        [as_text(counts), mean],
    )
    np.testing.assert_allclose(found, beliefs(counts, prior), rtol=1e-12)


def test_a_row_of_the_table_is_a_true_level_and_a_column_a_report(modules) -> None:
    """Tables of randomized response are symmetric, and would not show an exchange of the two."""
    unequal = [["3", "2"], ["1", "7"]]
    found = modules.evaluate(
        "rows => beliefs.posterior(beliefs.channelOf(rows), [1 / 2, 1 / 2], 1)", unequal
    )
    assert found == pytest.approx([2 / 9, 7 / 9])


@pytest.mark.parametrize("levels", [2, 5, 10])
def test_the_prior_is_the_tilt_with_the_public_mean(modules, levels) -> None:
    for mean in (1.2, 2.0, 3.0, 3.7, 4.9):
        prior = np.array(modules.evaluate("([l, m]) => beliefs.priorOf(l, m)", [levels, mean]))
        assert prior.sum() == pytest.approx(1)
        assert prior @ np.arange(levels) == pytest.approx((mean - 1) / 4 * (levels - 1), abs=1e-9)
        steps = np.diff(np.log(prior))
        np.testing.assert_allclose(steps, steps[0], atol=1e-9)


def test_the_prior_is_uniform_without_a_mean_and_never_certain(modules) -> None:
    assert modules.evaluate("() => beliefs.priorOf(4, null)") == pytest.approx([0.25] * 4)
    for mean in (1, 5, -3, 99):
        prior = modules.evaluate("mean => beliefs.priorOf(5, mean)", mean)
        assert min(prior) > 0
        assert max(prior) < 0.97


@pytest.mark.parametrize("id", MECHANISMS)
def test_the_expected_number_of_right_guesses_is_that_of_all_cases(modules, id) -> None:
    """Every true level and every report, weighted by how probable the two are together."""
    counts, mean = counts_of(id), 3.9
    levels = len(counts)
    prior = modules.evaluate("([l, m]) => beliefs.priorOf(l, m)", [levels, mean])
    guesses = [int(np.argmax(belief)) for belief in beliefs(counts, prior)]
    right = sum(prior[guess] * counts[guess][z] / 2**64 for z, guess in enumerate(guesses))
    found = modules.evaluate(
        """([counts, mean]) => {
          const channel = beliefs.channelOf(counts);
          const prior = beliefs.priorOf(counts.length, mean);
          const all = counts.flatMap((_, level) =>
            counts.map((_, report) => ({ level, report, channel, prior })));
          return beliefs.guesses(all);
        }""",
        [as_text(counts), mean],
    )
    cases = levels * levels
    assert found["number"] == cases
    assert found["expected"] == pytest.approx(right * cases)
    assert found["expectedBlind"] == pytest.approx(max(prior) * cases)
    assert found["right"] == levels  # each report is right for one level
    assert found["blind"] == levels  # the most probable level, with each report


def test_the_curve_is_that_of_the_tables(modules) -> None:
    for id in MECHANISMS:
        counts = counts_of(id)
        epsilon = float(registry.parse(id).epsilon)
        found = modules.evaluate(
            "([l, e]) => beliefs.uniformResponse(l, e)", [len(counts), epsilon]
        )
        np.testing.assert_allclose(found, np.array(counts, float) / 2**64, rtol=1e-9)


def test_times_likelier_is_never_below_e_to_the_epsilon(modules) -> None:
    names = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    for epsilon in (0.001, 0.5, 1, 2, 2.303, 4, 6.9, 9.3, 12.4, 20, 27.7, 34):
        words = modules.evaluate("e => words.times(e)", epsilon).replace(",", "").split()
        bound = float(words[0]) * names.get(words[-1], 1)
        assert math.exp(epsilon) <= bound * (1 + 1e-9)
        assert bound <= 1.1 * math.exp(epsilon)
    assert "thousand trillion" in modules.evaluate("() => words.times(40)")


def test_the_words_of_scales_with_whole_stars_half_stars_and_others(modules) -> None:
    found = modules.evaluate(
        "() => [words.rated(3, 5), words.rated(6, 10), words.rated(0, 7), words.fraction('1/2')]"
    )
    assert found == ["4 of 5 stars", "3.5 of 5 stars", "1 of 7", 0.5]
    assert modules.evaluate("() => [0, 9].map((level) => words.internal(level, 10))") == [1, 5]


def test_the_map_shows_the_two_directions_of_most_variance(modules, rng) -> None:
    rows = rng.normal(size=(80, 6)) * [1, 5, 0.5, 3, 0.2, 0.1] + [3, -2, 0, 1, 0, 4]
    found = modules.evaluate("rows => projection.axesOf(rows).axes", rows.tolist())
    centred = rows - rows.mean(axis=0)
    wanted = np.linalg.svd(centred, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(np.sum(np.array(found) * wanted, axis=1)), 1, atol=1e-6)
    one = modules.evaluate("rows => projection.axesOf(rows).axes", [[1.0], [2.0], [4.0]])
    assert len(one) == 1  # a table with a single factor makes a line
