"""How good the lists are that are served, beside popular items; a copy, any thread may read it."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.ranking.derivation import Derived
from stream_app.ranking.learned_weights import LEAST_EVENTS

POPULAR = "popular"


@dataclass(frozen=True)
class ServedMethod:
    """nDCG@10 of lists for the next visit on what devices liked there, and that of popular items;
    None where it cannot be measured, and `absent` says why. `basis`: `learned` weights or `links`,
    or `popular` items as long as there is no item side."""

    ndcg: float | None = None
    ndcg_popular: float | None = None
    absent: str = "nothing is counted yet"
    basis: str = POPULAR

    @classmethod
    def measured(cls, derived: Derived, *, public: bool) -> ServedMethod:
        """Return the standing of lists for the next visit; `public`: whether presence is."""
        learned, absent = derived.next, ""
        if not public:
            absent = "presence is protected: a later visit cannot be seen"
        elif learned.ndcg is None:
            absent = f"{learned.devices} devices with a second visit: {LEAST_EVENTS} are needed"
        basis = "links" if derived.side.link_targets.shape[1] else POPULAR
        basis = "learned" if len(learned.weights) else basis
        return cls(_rounded(learned.ndcg), _rounded(learned.ndcg_popular), absent, basis)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
