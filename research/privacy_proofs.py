"""The proofs of docs/proofs.md: for each family its statement, the code of its integer table, and
the steps, each with the test that checks it. A lemma that several proofs use is written once.

Tests check that every test and every table that is named exists, and that each family that claims
an epsilon has a proof of at most ten steps. `python -m research.privacy_page` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step of a proof; `test`: the file below tests/ and the name of the test that checks it,
    joined by `::`."""

    text: str
    test: str


@dataclass(frozen=True)
class Proof:
    """The claim of a family, the attribute that makes its integer table, and the proof."""

    family: str
    statement: str
    table: str
    steps: tuple[Step, ...]


_PRIVACY = "stream_app/privacy"
_CONTRACT = f"{_PRIVACY}/test_contract.py"
_PRESENCE = f"{_PRIVACY}/ratings/test_presence.py"
_CALIBRATION = f"{_PRIVACY}/exact/test_gaussian_calibration.py"
_DRAWS = f"{_PRIVACY}/gaussian/test_sampling.py"
_SUMS = f"{_PRIVACY}/gaussian/test_certificate.py"

_DRAW = Step(
    "One uniform 64-bit word is drawn for a report, and the report is the z into whose interval of "
    "c[v][0], c[v][1], ... the word falls. So P(z given v) = c[v][z] / 2^64, exactly.",
    f"{_CONTRACT}::test_what_is_sampled_is_what_is_certified_at_both_ends_of_every_interval",
)
_QUOTIENT = Step(
    "P(z given v) / P(z given v') is then a quotient of two integers. The largest over all v, v' "
    "and z is at most a rational number below e^epsilon, compared as fractions.",
    f"{_CONTRACT}::test_every_table_is_proved_and_spends_nearly_all_of_its_epsilon",
)
_BELOW = Step(
    "That number is below e^epsilon: a Taylor series in fixed point, each term rounded down.",
    f"{_PRIVACY}/exact/test_integer_tables.py"
    "::test_the_bounds_of_the_exponential_hold_it_and_are_close",
)
_SETS = Step(
    "A bound for each report holds for each set of reports, and for what is computed from them.",
    f"{_CONTRACT}::test_no_report_distinguishes_two_inputs_by_more_than_epsilon",
)
_TICKET = Step(
    "A mechanism draws only for a ticket, and gets one only if its tables were certified in this "
    "process: the table that was proved is the one that is drawn from.",
    f"{_PRIVACY}/test_ticket.py::test_a_mechanism_that_was_not_certified_here_gets_no_ticket",
)
_SCOPE = Step(
    "Every cell of the public scope is reported, and no rating is an input like any other: which "
    "cells are reported says nothing about which are rated.",
    "producers/test_emission.py"
    "::test_every_device_reports_each_item_of_the_scope_and_missing_for_unrated_items",
)
_THINNED = Step(
    "Thinning is applied to the report and looks at nothing else: post-processing.",
    f"{_PRESENCE}::test_thinning_is_done_to_what_is_released",
)
_FROM_TABLE = (_DRAW, _QUOTIENT, _BELOW, _SETS, _TICKET)
_NAMES = ("Draw", "Quotient", "Exponential", "Sets", "Ticket", "Thinning", "Scope")
_LEMMAS = dict(zip((*_FROM_TABLE, _THINNED, _SCOPE), _NAMES, strict=True))
_VALUE = (
    "For any two levels v, v' of one rating and any set S of reports: P(S given v) <= e^epsilon "
    "P(S given v'). That there is a rating, of which item and on which day, is the same in both."
)
_CELL = (
    "For any two contents x, x' of one cell, a rating of any level or none, and any set S of "
    "reports: P(S given x) <= e^epsilon P(S given x')."
)


def _formula(name: str, text: str) -> Step:
    return Step(text, f"{_PRESENCE}::test_the_law_of_{name}_is_the_formula")


PROOFS: tuple[Proof, ...] = (
    Proof(
        "rr",
        _VALUE,
        "stream_app.privacy.ratings.randomized_response:uniform_response",
        (
            Step(
                "The weights are e^epsilon for the true level and 1 for each other one.",
                f"{_PRIVACY}/ratings/test_randomized_response.py::test_the_channel_is_the_formula",
            ),
            *_FROM_TABLE,
        ),
    ),
    Proof(
        "partition",
        _VALUE + " The mask beside the report is public.",
        "stream_app.privacy.ratings.partition_response:PartitionResponse.table",
        (
            Step(
                "The mask is chosen from public data and earlier reports alone, so it is the same "
                "for v and v'.",
                f"{_PRIVACY}/ratings/test_partition_choice.py"
                "::test_a_choice_takes_only_public_or_released_arguments",
            ),
            Step(
                "Given the mask, levels of a group have the same law, and groups respond as `rr`.",
                f"{_PRIVACY}/ratings/test_partition_response.py"
                "::test_levels_of_one_group_cannot_be_distinguished_at_all",
            ),
            *_FROM_TABLE,
        ),
    ),
    Proof(
        "cell",
        _CELL,
        "stream_app.privacy.ratings.randomized_response_missing:RandomizedResponseWithMissing.table",
        (
            _formula("cell", 'The weights are those of `rr` over the levels and "missing".'),
            *_FROM_TABLE,
            _THINNED,
            _SCOPE,
        ),
    ),
    Proof(
        "ternary",
        _CELL,
        "stream_app.privacy.ratings.ternary:Ternary.table",
        (
            _formula(
                "ternary",
                "The coin that rounds a level and the response over three symbols make one table, "
                "so the coin is inside the probabilities that are compared.",
            ),
            *_FROM_TABLE,
            _THINNED,
            _SCOPE,
        ),
    ),
    Proof(
        "laplace",
        _CELL,
        "stream_app.privacy.ratings.modified_laplace:ModifiedLaplace.table",
        (
            _formula(
                "laplace",
                "Two levels are at most 2T grid points apart and the noise falls by e^(-epsilon / "
                "2T) a point; both tails are folded onto the ends of the scale.",
            ),
            *_FROM_TABLE,
            _THINNED,
            _SCOPE,
        ),
    ),
    Proof(
        "like",
        _CELL,
        "stream_app.privacy.ratings.like:Like.table",
        (
            Step(
                'The report is a function of the bit "rated and at least L" and of noise, with '
                "weights e^epsilon and 1; L is public.",
                f"{_PRIVACY}/ratings/test_like.py"
                "::test_every_threshold_has_the_law_of_one_bit_and_its_own_name",
            ),
            *_FROM_TABLE,
            _SCOPE,
        ),
    ),
    Proof(
        "gaussian",
        "For any two campaigns that differ in one person, whose vectors are zeros in one of them, "
        "and any set S of what all stages release: P(S) <= e^epsilon P'(S) + delta, for every "
        "point (epsilon, delta) of the curve.",
        "stream_app.privacy.gaussian.sampling:GaussianTable",
        (
            Step(
                "A vector is rounded to integers and then clipped, so its L2 norm is at most the "
                "bound, in integers; a person has one vector in each stage.",
                "stream_app/campaigns/test_contribution_vectors.py::test_no_vector_is_longer_than_its_bound",
            ),
            Step(
                "The noise of a coordinate is a discrete Gaussian of variance V (Canonne, Kamath "
                "and Steinke 2020, Definition 1): a word of 64 bits is compared with the first 63 "
                "digits of its distribution function.",
                f"{_DRAWS}::test_a_threshold_is_the_first_63_digits_of_the_distribution",
            ),
            Step(
                "Where the digits are equal further words decide, so the law is exact over all "
                "integers.",
                f"{_DRAWS}::test_a_word_that_meets_a_threshold_is_decided_by_further_digits",
            ),
            Step(
                "The density of N(y, r^2), summed over the integers, is within 1 +- h for every "
                "real y, h = 2 (e^(-2 pi^2 r^2) + e^(-8 pi^2 r^2) + ...) (Poisson summation).",
                f"{_SUMS}::test_a_sum_over_the_integers_is_uneven_by_the_bound_and_hardly_less",
            ),
            Step(
                "So the noisy integer is, but for a factor of at most (1 + h) / (1 - h) in each "
                "coordinate, a sum with continuous noise N(0, V - r^2) that is then rounded at "
                "random with r (Peikert 2010); r^2 = 9/4 makes h < 2e-19.",
                f"{_SUMS}::test_a_rounded_gaussian_is_within_the_bound_of_the_integer_noise",
            ),
            Step(
                "Continuous noise on a sum that moves by at most the bound has the curve of "
                "N(0, 1) against N(mu, 1), mu = bound / sqrt(V - r^2) (Balle and Wang 2018), and "
                "rounding is post-processing.",
                f"{_CALIBRATION}::test_delta_is_bounded_tightly_from_both_sides",
            ),
            Step(
                "Stages compose by adding mu^2, also where a later vector depends on earlier "
                "releases (Dong, Roth and Su 2022, Corollary 3.3).",
                f"{_SUMS}::test_a_second_stage_may_depend_on_the_first",
            ),
            Step(
                "The factors of all coordinates of all stages are paid for out of epsilon and "
                "delta; the result is above the integers enumerated one by one.",
                f"{_SUMS}::test_the_curve_is_above_the_enumerated_integers",
            ),
            Step(
                "Noise from a key is the same after every restart: a sum is not released twice "
                "with two noises.",
                f"{_PRIVACY}/gaussian/test_keyed_source.py"
                "::test_the_words_do_not_depend_on_how_they_are_asked_for",
            ),
        ),
    ),
)


def proofs() -> str:
    """Return the lemmas that several proofs use, and the proofs, as the text of the page."""
    lemmas = "".join(f"- **{name}.** {_checked(step)}\n" for step, name in _LEMMAS.items())
    return "\n".join((lemmas, *map(_text, PROOFS)))


def _text(proof: Proof) -> str:
    shared = ", ".join(_LEMMAS[step] for step in proof.steps if step in _LEMMAS)
    own = [step for step in proof.steps if step not in _LEMMAS]
    lines = [f"**`{proof.family}`.** {proof.statement} Table: `{proof.table}`.", ""]
    lines += [f"{number}. {_checked(step)}" for number, step in enumerate(own, 1)]
    lines += [f"{len(own) + 1}. Lemmas: {shared}."] * bool(shared)
    return "\n".join(lines) + "\n"


def _checked(step: Step) -> str:
    return f"{step.text} [`{step.test.partition('::')[2]}`]"
