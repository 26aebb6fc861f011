"""A list that is drawn: which sets of items it can be, and what it hides, are the same for all.

    candidates   all items of the public `list_scope` that the catalogue does not withdraw, in the
                 order of their keys; what the asker has rated is among them, since to leave it out
                 would show it
    p            the newest T items in the asker's list, as far as the server knows of them
    f_j          sum over k in p, k != j, of  min(s_jk, tau) / tau
    s_jk         c_jk / sqrt((n_j + beta) (n_k + beta))
    P(S)         proportional to  e^(epsilon f(S) / (2 k Delta))      (`privacy/k_subset.py`)

with c co-raters and n raters, of presence alone: no rating enters. An item without ratings has 0.
The reply has no scores, and its items come in the order of their keys. The cap makes each item of
the history count up to 1, as much as the sensitivity allows to one report: a mean of bare
similarities, at most some .2 each, has a tenth of that signal.

Delta = 1 + (T - 1) h, h = min(1, 1 / ((beta + 1) tau)), bounds the change of every f_j by one
report of the asker, what it changes of c and n included, or by all reports of one other device.
Proof. Let s(x, y) be the s_jk where a device adds x to n_j, y to n_k and x y to c (x, y in 0, 1;
a = n_j + beta, b = n_k + beta and c without it). Then

    s(1, 1) - s(1, 0) <= 1 / sqrt((a + 1)(b + 1)) <= 1 / (beta + 1),       and s(0, 1) alike
    s(0, 0) - s(1, 0) <= 1 - sqrt(a / (a + 1)) <= 1 / (a + 1) <= 1 / (beta + 1)
    s(1, 0) <= s(0, 0),                               and c <= sqrt(n_j n_k) <= sqrt(a b)

so all four lie within 1 / (beta + 1) of each other: whatever a device has in its list, and whatever
another list would have, s changes by that much, and a term of f_j, which lies within 0 .. 1, by h.
Another device leaves p: at most T terms change, T h <= Delta. A report of the asker changes the
list of the asker, thus any term by h, and p: at most one item enters and one leaves (a re-rating
keeps its place), which is between -1 and 1, and T - 1 items at most stay. T is 113, or
`recent_items` - 15 if that is less, which a list always holds: where a list is full, 16 items leave
it at once, and those are no part of p. (An item that was rated again after it had left is new to
the list; a report that changes which of them that is counts as what it changes of p.)

It needs that which ratings a list holds depends on its device alone. The scope is part of the
settings, so each of its items holds a slot whatever devices send, and an item outside has no entry
in any list. Lists are refused where more devices are known than can have a list, while stale
devices are evicted (which are gone depends on their rows), and with `clip`, by which a model
decides.

By the published table of noised similarities (`similar_from = published`) the scores are

    f_j          sum over k in p of  min(s_kj, tau) / tau,     s_kj of the table (`co_rated.py`)

The table is public, so a list is made of it and of the asker's history alone: what other devices,
and the asker, have in the table is covered by the epsilon and delta of its release, whatever number
of lists is drawn, and the neighbours of a list differ in one report of the asker. Delta = 1: a
report changes p by at most one item that enters and one that leaves, and each term lies within
0 .. 1, whatever the table holds, so f_j moves by the difference of two such terms.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.co_ratings import always_held
from stream_app.privacy.k_subset import KSubset
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.together.co_rated import CoRated
from stream_app.state.replica import Replica
from stream_app.state.spec import GIVE_SCOPE
from stream_app.wire import Guarantee

DAMPING, CAP = 3_000, 0.08  # beta in devices, tau: chosen on half of the users of ML-1M
PUBLISHED_CAP = 0.1  # tau of similarities that are damped by the noise of the table alone
METHOD = "exact-k-subset"
ADJACENCY = "one report of the asker, or all reports of one other device, for each list"
PUBLISHED_ADJACENCY = (
    "one report of the asker, for each list; what devices have in the published table of "
    "similarities is covered by the epsilon of the table"
)
ROUNDING = 1e-9
Keys = NDArray[np.uint64]


class Counts(NamedTuple):
    """Of p, m slots of the n in use: items (n,), slots (m,), co-raters (m, n) of each with each
    slot, 0 with itself, and raters (n,)."""

    keys: Keys
    slots: NDArray[np.int64]
    co_raters: NDArray[np.int64]
    raters: NDArray[np.int64]


def sensitivity(recent_items: int, damping: float = DAMPING, cap: float = CAP) -> float:
    """Return Delta, the most by which one neighbour moves any score."""
    return 1 + (always_held(recent_items) - 1) * min(1.0, 1 / ((damping + 1) * cap))


def mechanism(recent_items: int, k: int, epsilon: Fraction, *, published: bool = False) -> KSubset:
    """Return what draws a list of k items; ValueError for an epsilon outside its range."""
    moved = 1.0 if published else sensitivity(recent_items)
    return KSubset(k, epsilon, moved, 0.0, float(always_held(recent_items)), ROUNDING)


def guarantee(epsilon: Fraction, *, published: bool = False) -> Guarantee:
    """Return what the reply states."""
    return Guarantee(PUBLISHED_ADJACENCY if published else ADJACENCY, str(epsilon), METHOD)


def candidates(scope: tuple[int, ...], catalogue: Catalogue) -> Keys:
    """Return the items (n,) that a list can have, ascending; from any thread."""
    keys = np.array(scope, np.uint64)
    return keys[~catalogue.withdrawn(keys)]


def elected(replica: Replica) -> str:
    """Return why which items have pairs, or which devices a list, depends on who reported, as one
    sentence; empty where it does not."""
    co_ratings = replica.pairs.co_ratings
    if not replica.spec.list_scope:
        return f"which items count depends on who rated; {GIVE_SCOPE}"
    if math.isfinite(replica.spec.clip):
        return f"clip is {replica.spec.clip:g}: which ratings count depends on other devices"
    if co_ratings is not None and not co_ratings.whole:
        return (
            f"{len(replica.marks):,} devices are known and co-ratings hold lists of "
            f"{co_ratings.most_devices:,}, so which of them count depends on who came first"
        )
    if replica.marks.leaving:
        return (
            "devices that have sent nothing lately are being evicted, and which of them count "
            "still depends on when others came; ask again some rounds later"
        )
    return ""


def counts(replica: Replica, device: bytes) -> Counts:
    """Return a copy of what the scores of a device are made of; in the event loop, a millisecond
    at 2,048 items."""
    length = always_held(replica.spec.recent_items)
    slots = replica.rated_values(device).slots[-length:]
    co_raters, raters = replica.pairs.co_raters(slots)
    return Counts(replica.pairs.co_rated_keys(replica.items), slots, co_raters, raters)


def scores(
    known: Counts, among: Keys, damping: float = DAMPING, cap: float = CAP
) -> NDArray[np.float64]:
    """Return f (n,) within 0 .. T of candidates `among` (n,) for a device; 0 for all where nothing
    is known of it; from any thread."""
    values = np.zeros(len(among))
    if not len(known.slots) or not len(among):
        return values
    inverse = 1 / np.sqrt(known.raters + float(damping))
    similar = known.co_raters * inverse[known.slots][:, None] * inverse
    near = (np.minimum(similar, cap) / cap).sum(axis=0)
    at = np.searchsorted(among, known.keys).clip(0, len(among) - 1)
    found = among[at] == known.keys
    values[at[found]] = near[found]
    return values


def rated(replica: Replica, device: bytes) -> Keys:
    """Return p (m,), the items of a device; in the event loop."""
    return replica.rated_values(device).keys[-always_held(replica.spec.recent_items) :]


def published_scores(
    table: CoRated, history: Keys, among: Keys, cap: float = PUBLISHED_CAP
) -> NDArray[np.float64]:
    """Return f (n,) within 0 .. T of candidates `among` (n,) by a history (m,) and the published
    table; from any thread."""
    values = np.zeros(len(among))
    slots, columns = table.slots_of(history), table.slots_of(among)
    if not len(table):
        return values
    similar = table.similarities[slots[slots >= 0]].astype(np.float64)
    near = (similar.clip(0, cap) / cap).sum(axis=0)
    known = columns >= 0
    values[known] = near[columns[known]]
    return values
