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
_GAUSSIAN = f"{_PRIVACY}/exact/test_discrete_gaussian.py"
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
_PROFILE = "For any two profiles that differ in one item and any set S of releases: "


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
        "blip",
        _PROFILE + "P(S given P) <= e^epsilon P(S given P').",
        "stream_app.privacy.profiles.blip:Blip.flip",
        (
            Step(
                "An item sets at most K bits of the filter, so two profiles that differ in one "
                "item differ in at most K bits before the noise.",
                f"{_PRIVACY}/profiles/test_codebook.py"
                "::test_addresses_are_within_the_filter_and_positions_are_the_distinct_ones",
            ),
            Step(
                "Each bit is flipped by a word of its own, also in a second release.",
                f"{_PRIVACY}/profiles/test_blip_frequencies.py"
                "::test_bits_are_flipped_independently_of_each_other_and_of_earlier_releases",
            ),
            Step(
                "The worst quotient of one bit, from its integer table, to the power K is at most "
                "a rational number below e^epsilon.",
                f"{_PRIVACY}/profiles/test_blip.py::test_the_claim_is_proved_and_nearly_used_up",
            ),
            Step(
                "The likelihood of an output is the product over the bits.",
                f"{_PRIVACY}/profiles/test_blip.py"
                "::test_no_output_distinguishes_two_neighbouring_profiles_by_more_than_epsilon",
            ),
            Step(
                "Profiles k items apart differ by at most min(k, L / K) epsilon: k neighbours, and "
                "no more than L bits of epsilon / K.",
                f"{_PRIVACY}/profiles/test_blip.py"
                "::test_a_whole_profile_costs_items_times_epsilon_and_never_more_than_all_bits",
            ),
            Step(
                "Under a cap of N, the first N items of a public order are kept: one item more "
                "changes at most two of them, so 2K bits, each of epsilon / 2K; and all profiles "
                "are within N epsilon of each other, and N epsilon / 2 of the empty one.",
                f"{_PRIVACY}/profiles/test_cap.py"
                "::test_no_output_of_a_capped_filter_distinguishes_neighbours_by_more_than_epsilon",
            ),
            _BELOW,
            _TICKET,
        ),
    ),
    Proof(
        "jlt",
        _PROFILE + "P(S given P) <= e^epsilon P(S given P') + delta.",
        "stream_app.privacy.exact.discrete_gaussian:NoiseTable",
        (
            Step(
                "One item moves every one of the L integer coordinates by exactly 1.",
                f"{_PRIVACY}/profiles/test_jlt.py"
                "::test_one_item_more_moves_every_coordinate_by_exactly_one",
            ),
            Step(
                "The noise is a discrete Gaussian from an integer table; a draw is the row into "
                "whose words it falls.",
                f"{_GAUSSIAN}::test_a_draw_is_the_row_in_whose_words_it_falls",
            ),
            Step(
                "The loss then depends on the sum T of the noise times the signs alone, and of a "
                "sum of continuous Gaussians it would be that of one Gaussian.",
                f"{_PRIVACY}/profiles/test_jlt.py"
                "::test_the_privacy_loss_of_one_item_depends_on_the_sum_of_the_noise_alone",
            ),
            Step(
                "delta of the analytic Gaussian (Balle and Wang 2018, Theorem 8), in interval "
                "arithmetic.",
                f"{_CALIBRATION}::test_delta_is_bounded_tightly_from_both_sides",
            ),
            Step(
                "The law of T is no discrete Gaussian, but one times a factor that varies by "
                "((1 + h) / (1 - h))^(L - 1) at most, h = 2.1 e^(-pi^2 V); this factor and the "
                "step from an integral to a sum over the lattice are bounded from above.",
                f"{_CALIBRATION}::test_the_bound_on_the_lattice_is_above_brute_force_and_near_it",
            ),
            Step(
                "What the counts of the table depart from the law is paid for out of epsilon, and "
                "what its ends cut off out of delta.",
                f"{_GAUSSIAN}::test_the_bound_holds_for_the_very_table_by_enumeration",
            ),
            Step(
                "The proved delta is at most the claimed one, or no mechanism is made.",
                f"{_PRIVACY}/profiles/test_jlt.py::test_less_noise_than_the_claim_needs_is_caught",
            ),
            Step(
                "Under a cap of N one item more changes at most two items that are kept: each of "
                "them has (epsilon / 2, d) with d (1 + e^(epsilon / 2)) <= delta.",
                f"{_PRIVACY}/profiles/test_cap.py"
                "::test_the_noise_of_a_capped_projection_pays_for_an_exchange",
            ),
            _TICKET,
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
