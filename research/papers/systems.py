"""The papers, their systems, where each is, and which claim fails, for `reproduce --papers`.

A claim that fails has a test under `tests/claims/`; the corrected form is the one that is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A system of a paper: its module (a path in the repository), whether it runs in the product or
    is for evaluation, and its claim that fails, in one sentence; empty where none is known to."""

    name: str
    module: str
    state: str
    fails: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper by its key in the bibliography and by authors and year."""

    key: str
    authors: str
    title: str
    systems: tuple[System, ...]

    @property
    def slug(self) -> str:
        """First author and year, as `zheng-2016`."""
        words = self.authors.lower().split()
        return f"{words[0].rstrip(',')}-{words[-1]}"


SERVED, EVALUATED = "in the product", "for evaluation"

PAPERS: tuple[Paper, ...] = (
    Paper(
        "S000",
        "Guerraoui et al. 2017",
        "Heterogeneous Recommendations: What You Might Like To Read After Watching Interstellar",
        (
            System("X-SIM, AlterEgo profiles", "research/xmap/alter_ego.py", EVALUATED),
            System(
                "private replacement (PRS)",
                "research/xmap/replacement.py",
                EVALUATED,
                "who made the only path to an item decides whether it can be drawn, and c replaced "
                "items cost c epsilon",
            ),
            System(
                "private neighbours (PNSA)",
                "research/xmap/neighbours.py",
                EVALUATED,
                "the similarity-based sensitivity is no bound: one person moves a similarity by "
                ".667 where .5 is stated",
            ),
            System(
                "noise on similarities (PNCF)",
                "research/xmap/neighbour_noise.py",
                EVALUATED,
                "k similarities cost k times the stated half of epsilon",
            ),
        ),
    ),
    Paper(
        "S001",
        "Zheng 2016",
        "Two Differentially Private Rating Collection Mechanisms for Recommender Systems",
        (
            System(
                "randomized response",
                "stream_app/privacy/ratings/randomized_response_missing.py",
                SERVED,
            ),
            System(
                "modified Laplace",
                "stream_app/privacy/ratings/modified_laplace.py",
                SERVED,
                "its real-valued noise, drawn in floating point, is not private: integers here",
            ),
            System(
                "low-rank recovery, utility bound",
                "research/completion.py",
                EVALUATED,
                "utility is not assured: the bound exceeds the width of the scale below epsilon 8",
            ),
        ),
    ),
    Paper(
        "S002",
        "Meng et al. 2018",
        "Personalized Privacy-Preserving Social Recommendation",
        (
            System(
                "PrivSR, shares of noise",
                "research/privsr/printed_shares.py",
                EVALUATED,
                "the budget is up to 1.41 times the stated one, and raters who know h or collude "
                "remove the noise",
            ),
            System("PrivSR, corrected", "research/privsr/private_rounds.py", EVALUATED),
        ),
    ),
    Paper(
        "S003",
        "Park and Acharya 2011",
        "Differentially Private Recommendation Systems: Practical Implementation and "
        "Interpretation",
        (
            System("Slope One, cosine", "research/similarity/", EVALUATED),
            System(
                "Laplace noise on scores",
                "research/score_noise/printed.py",
                EVALUATED,
                "a rating moves a score by 4.0 where .4 is claimed, and a list of 20 costs up to "
                "40 epsilon",
            ),
            System(
                "damped scores, ordered list",
                "research/score_noise/damped.py",
                EVALUATED,
            ),
            System("co-ratings noised once", "research/similarity/noised_sums.py", EVALUATED),
            System(
                "linear adversary",
                "research/audits/linear.py",
                EVALUATED,
                "its plain guess is worse than chance, so the printed risk is too small",
            ),
            System("sets of k items", "research/score_noise/k_subset.py", EVALUATED),
            System(
                "sets by a birth-death chain",
                "research/papers/swapped_sets.py",
                EVALUATED,
                "not private for any epsilon, never mixed, and its windows repeat sets",
            ),
        ),
    ),
    Paper(
        "S004",
        "Balu 2016",
        "Privacy-aware and scalable recommender systems using sketching techniques",
        (
            System("Bloom, count-min, AMS", "stream_app/models/sketches.py", SERVED),
            System("BLIP profiles", "research/profiles/blip.py", EVALUATED),
            System(
                "JLT profiles",
                "research/profiles/jlt.py",
                EVALUATED,
                "the printed epsilons are for a delta of .1",
            ),
            System(
                "neighbours from profiles",
                "research/profiles/nearest_profiles.py",
                EVALUATED,
            ),
            System(
                "decoders of profiles",
                "research/attacks/",
                EVALUATED,
                "the chain over slots counts large sets too often; joint decoding gains little "
                "beyond the prior",
            ),
            System(
                "information of a profile",
                "research/profile_information.py",
                EVALUATED,
                "approximation 3.18 contradicts the theorem, and bound 3.25 as printed is violated",
            ),
            System(
                "count-sketch matrix factorization",
                "stream_app/models/factorization/count_sketch.py",
                SERVED,
                "two signs of the gradient are wrong as printed",
            ),
            System(
                "clipping of updates",
                "stream_app/models/factorization/hyperparameters.py",
                SERVED,
                "clipping alone carries no epsilon: the model shows whether a rating was learned",
            ),
            System(
                "Langevin dynamics",
                "research/trainers/langevin.py",
                EVALUATED,
                "as printed it samples at half the temperature",
            ),
            System(
                "noisy trainers",
                "research/trainers/",
                EVALUATED,
            ),
            System("qoLSH", "stream_app/models/retrieval/qolsh_index.py", SERVED),
            System(
                "LSH, anti-sparse and optimal codes",
                "research/coders.py",
                EVALUATED,
                "in few dimensions the shortlist of LSH with a frame holds more than that of qoLSH",
            ),
        ),
    ),
)
