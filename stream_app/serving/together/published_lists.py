"""A list that is drawn by the published table of noised similarities (`similar_from = published`).

    f_j          sum over k in p of  min(s_kj, tau) / tau,     s_kj of the table (`co_rated.py`)

p, the candidates and the draw are those of `private_lists.py`. The table is public, so a list is
made of it and of the asker's history alone: what other devices, and the asker, have in the table
is covered by the epsilon and delta of its release, whatever number of lists is drawn, and the
neighbours of a list differ in one report of the asker.

Delta = 1. Proof. A report changes p by at most one item that enters and one that leaves, and each
term lies within 0 .. 1, whatever the table holds: f_j moves by the difference of two such terms.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.co_ratings import always_held
from stream_app.privacy.k_subset import KSubset
from stream_app.serving.together.co_rated import CoRated
from stream_app.serving.together.private_lists import METHOD, ROUNDING, Keys
from stream_app.state.replica import Replica
from stream_app.wire import Guarantee

CAP = 0.1  # tau, of similarities that are damped by the noise of the table alone
ADJACENCY = (
    "one report of the asker, for each list; what devices have in the published table of "
    "similarities is covered by the epsilon of the table"
)


def mechanism(recent_items: int, k: int, epsilon: Fraction) -> KSubset:
    """Return what draws a list of k items; ValueError for an epsilon outside its range."""
    return KSubset(k, epsilon, 1.0, 0.0, float(always_held(recent_items)), ROUNDING)


def guarantee(epsilon: Fraction) -> Guarantee:
    """Return what the reply states."""
    return Guarantee(ADJACENCY, str(epsilon), METHOD)


def rated(replica: Replica, device: bytes) -> Keys:
    """Return p (m,), the items of a device; in the event loop."""
    return replica.rated_values(device).keys[-always_held(replica.spec.recent_items) :]


def scores(table: CoRated, history: Keys, among: Keys, cap: float = CAP) -> NDArray[np.float64]:
    """Return f (n,) within 0 .. T of candidates `among` (n,) by a history (m,); from any thread."""
    values = np.zeros(len(among))
    slots, columns = table.slots_of(history), table.slots_of(among)
    if not len(table):
        return values
    similar = table.similarities[slots[slots >= 0]].astype(np.float64)
    near = (similar.clip(0, cap) / cap).sum(axis=0)
    known = columns >= 0
    values[known] = near[columns[known]]
    return values
