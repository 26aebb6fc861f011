"""What becomes of each part of a state under another spec, with the reason.

    carried over     its arrays fit as they are
    converted        entered into tables of another layout, by the keys that the state lists
    started empty    it cannot be read without what it was made from

A part that is hashed with another seed, and a filter or table of another size whose keys are not
known, starts empty.

What a learner knows of entities is moved to a learner of other tables.

    old tables --users(keys), items(keys)--> vectors, biases, variances by key --> new tables

Keys come from outside: a table of tags cannot list its entities. Rows are given out in the order of
the keys, items before users, so that a smaller table keeps the items. A sketch is read like any
other learner but not written: its cells are sums that cannot be entered entity by entity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.bias_table import BIAS
from stream_app.log.ledger import ledger_array
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import ITEM, USER, LearnerSpec, ServedLearner
from stream_app.models.sketches import CountMinSketch
from stream_app.privacy.ratings.identity import Identity
from stream_app.state.replica import Replica
from stream_app.wire.limits import MAX_SEQ

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Known:
    """What a learner knows of the entities of one side: keys (n,), vectors (n, d), and scalars
    (n, 3): bias, variances of bias and vector as shares."""

    keys: Keys
    vectors: NDArray[np.float32]
    scalars: NDArray[np.float32]


@dataclass(frozen=True)
class Moved:
    """Entities that were entered, and of these the ones with a vector of their own."""

    entities: int
    vectors: int


def known_of(learner: ServedLearner, keys: Keys, side: int) -> Known:
    """Return what a learner knows of the given keys (distinct), without those it does not know."""
    scalars = learner.scalars_of(keys, side)
    known = ~np.isnan(scalars[:, BIAS])
    keys, scalars = keys[known], scalars[known]
    vectors, biases = learner.users(keys) if side == USER else learner.items(keys)
    scalars[:, BIAS] = biases
    return Known(keys, vectors, scalars)


def enter(learner: ServedLearner, found: dict[int, Known], overall: NDArray[Any]) -> Moved | None:
    """Fill an untrained learner with what another one knew; None for one that cannot be filled.

    Vectors of another length are left at their first values; biases count all the same.
    """
    if not isinstance(learner, HybridLearner):
        return None
    entities = 0
    for side in (ITEM, USER):
        known = found[side]
        fit = known.vectors.shape[1] == learner.factors
        vectors = known.vectors if fit else None
        entities += learner.enter(known.keys, side, vectors, known.scalars)
    learner.set_mean(overall)
    return Moved(entities, learner.rows_given)


Arrays = dict[str, NDArray[Any]]
_FEEDS = "rated_", "reported_"
_HASHED = frozenset({"learner", "seen", "presence", "frequencies", "second_moment"})
_LEARNER = ("model", "factors", "depth", "sketch_bytes", "scalars_bytes")


class Fate(StrEnum):
    """What became of a part."""

    CARRIED = "carried over"
    CONVERTED = "converted"
    EMPTY = "started empty"


@dataclass(frozen=True)
class PartReport:
    """A part, what became of it, and why."""

    part: str
    fate: Fate
    reason: str


class Migration:
    """Fills an empty replica from the arrays of another state and the settings of its spec, part by
    part; `reports` has one entry for each."""

    def __init__(
        self,
        model: Mapping[str, NDArray[Any]],
        settings: Mapping[str, str],
        replica: Replica,
    ) -> None:
        self._model, self._settings, self._replica = model, settings, replica
        self._parts = replica.parts()
        self._same_seed = self._settings.get("seed") == str(replica.spec.seed)
        names = ", ".join(mechanism.id for mechanism in replica.spec.mechanisms)
        self._same_mechanisms = self._settings.get("mechanisms") == names
        self._counts = CountMinSketch(seed=int(self._settings.get("seed", 1)))
        self._rows_kept = {"items": False, "reported_items": False, "marks": False}
        self.reports: list[PartReport] = []

    def run(self) -> None:
        """Fill the replica."""
        if given := self._given("frequencies"):
            self._counts.load(given)
        first = ("frequencies", "marks", "items", "reported_items", "learner")
        pairs = [n for n in self._parts if n.startswith(_FEEDS) and n not in first]
        rest = [n for n in self._parts if n not in {*first, *pairs}]
        for name in (*first, *rest):
            if name in self._parts:
                self._move(name)
        for feed, directory in (("rated_", "items"), ("reported_", "reported_items")):
            if names := [n for n in pairs if n.startswith(feed)]:
                self._move_pairs(names, directory)
        for name in sorted({key.partition(".")[0] for key in self._model} - self._parts.keys()):
            self._report(name, Fate.EMPTY, "the present settings have no such part")
        # Arrays by item and by device are as long as their directories.
        self._replica.pairs.extend(self._replica.items, self._replica.marks)

    def _given(self, name: str) -> Arrays:
        split = ((key.partition("."), array) for key, array in self._model.items())
        given = {key: array for (part, _, key), array in split if part == name}
        if name == "marks" and not (self._same_seed and self._same_mechanisms):
            # Digests of contents have the seed and the places of the mechanisms in them: an event
            # that is sent once more would pass for another one of its number.
            given.pop("digests", None)
        return given

    def _report(self, part: str, fate: Fate, reason: str) -> None:
        self.reports.append(PartReport(part, fate, reason))

    def _move(self, name: str) -> None:
        given = self._given(name)
        if not given:
            self._report(name, Fate.EMPTY, "the snapshot has no such part")
        elif name == "learner":
            self._move_learner(given)
        elif name == "frequencies" and not self._same_seed:
            keys = self._keys({})[ITEM]
            self._replica.frequencies.add_many(keys, self._counts.estimate_many(keys))
            self._report(name, Fate.CONVERTED, f"the counts of {len(keys):,} listed items")
        elif name in _HASHED and not self._same_seed:
            self._report(name, Fate.EMPTY, "its places are hashes with another hash_seed")
        elif self._loads(name, given):
            self._report(name, Fate.CARRIED, "equal layout")
            self._rows_kept[name] = True
        elif name == "marks":
            self._move_marks(given)
        elif name in ("items", "reported_items"):
            self._move_items(name, given)
        else:
            self._report(name, Fate.EMPTY, "other size, and what was entered cannot be listed")

    def _loads(self, name: str, given: Arrays) -> bool:
        """Load a part if its arrays fit, and return whether they do."""
        try:
            self._parts[name].load(given)
        except (ValueError, KeyError):
            return False
        return True

    # --- marks and items ------------------------------------------------------------------

    def _move_marks(self, given: Arrays) -> None:
        """Convert sequence numbers: where the layout differs, everything up to the last number
        counts as seen."""
        own, count = self._parts["marks"].arrays(), len(given["devices"])
        blank, known = np.zeros((count, own["digests"].shape[1]), np.uint32), ""
        fresh = {"digests": blank} | given
        if fresh["digests"] is blank or fresh["digests"].shape != blank.shape:
            fresh["digests"], known = blank, "; contents of their newest events unknown"
        old, free = given["marks"].reshape(count, -1), fresh["days"] == 0
        marks, reason = old, "as they are"
        if old.shape[1:] != own["marks"].shape[1:]:
            newest = np.minimum(old.max(axis=1, initial=0), MAX_SEQ)
            marks, reason = np.zeros((count, own["marks"].shape[1]), np.int64), "by their last seq"
            # One run from 1 on, or the largest number; a free row has the next one in its place.
            runs = (newest > 0, newest) if marks.shape[1] > 1 else (newest,)
            for column, values in enumerate(runs):
                marks[:, column] = np.where(free, 0, values)
            marks[free, 0] = old[free, 0]
        self._rows_kept["marks"] = self._loads("marks", {**fresh, "marks": marks})
        fate = Fate.CONVERTED if self._rows_kept["marks"] else Fate.EMPTY
        self._report("marks", fate, f"{count:,} devices, {reason}{known}")

    def _move_items(self, name: str, given: Arrays) -> None:
        """Convert a list of items, the most reported where there is not room for all."""
        part, keys, most = self._parts[name], given["keys"], self._replica.spec.items_most
        counts = self._counts.estimate_many(keys)
        kept = np.arange(len(keys))
        if len(keys) > most:
            kept = np.sort(np.lexsort((kept, -counts))[:most])
        fresh = {key: array.copy() for key, array in part.arrays().items()}
        fresh |= {"keys": keys[kept], "reports": counts[kept]}
        fresh["credit"] = np.ones(len(kept), np.uint8)
        self._rows_kept[name] = self._loads(name, fresh) and len(kept) == len(keys)
        reason = f"{len(kept):,} of {len(keys):,} keys; reports from the counts of all items"
        self._report(name, Fate.CONVERTED, reason)

    def _move_pairs(self, names: list[str], directory: str) -> None:
        """Carry a feed over as a whole or not at all: its arrays name rows of the directory."""
        reason = ""
        if not (self._rows_kept[directory] and self._rows_kept["marks"]):
            reason = "the rows of items or devices have changed"
        elif directory == "reported_items" and not self._same_mechanisms:
            reason = "its counts are those of other mechanisms"
        blank = {n: {k: a.copy() for k, a in self._parts[n].arrays().items()} for n in names}
        if not reason and not all(self._loads(name, self._given(name)) for name in names):
            reason = "other head_items or recent_items"
            for name in names:
                self._parts[name].load(blank[name])
        for name in names:
            self._report(name, Fate.EMPTY if reason else Fate.CARRIED, reason or "equal layout")

    # --- the learner ----------------------------------------------------------------------

    def _move_learner(self, given: Arrays) -> None:
        new, spec = self._replica.learner, self._replica.spec
        same = all(self._settings.get(n) == str(getattr(spec, n)) for n in _LEARNER)
        if self._same_seed and same and self._loads("learner", given):
            self._report("learner", Fate.CARRIED, "equal layout")
            return
        try:
            old = self._old_learner(given)
        except (ValueError, KeyError) as error:
            self._report("learner", Fate.EMPTY, f"its tables cannot be read: {error}")
            return
        keys = self._keys(given)
        found = {side: known_of(old, keys[side], side) for side in (ITEM, USER)}
        moved = enter(new, found, given["overall"])
        if moved is None:
            self._report(
                "learner", Fate.EMPTY, f"the cells of a {spec.model} are sums of many entities"
            )
            return
        total = sum(len(each.keys) for each in found.values())
        vectors = f"{moved.vectors:,} with a vector of their own"
        if old.users(keys[USER][:0])[0].shape[1] != new.factors:
            vectors = "vectors of another length (factors) start empty"
        self._report(
            "learner", Fate.CONVERTED, f"{moved.entities:,} of {total:,} known entities; {vectors}"
        )

    def _old_learner(self, given: Arrays) -> ServedLearner:
        """Return the learner of the snapshot."""
        sizes = {name: int(self._settings[name]) for name in _LEARNER[1:]}
        spec = LearnerSpec(**sizes, seed=int(self._settings["seed"]))  # type: ignore[arg-type]
        old = build(self._settings["model"], self._replica.channels, spec)
        old.load(given)
        return old

    def _keys(self, given: Arrays) -> dict[int, NDArray[np.uint64]]:
        """Return the keys of items and of users that the snapshot lists, each once, in order."""
        items = [self._model.get("items.keys"), given.get("item_keys")]
        devices = self._model.get("marks.devices")
        users = [None if devices is None else devices[:, 0], given.get("user_keys")]
        return {ITEM: _distinct(items), USER: _distinct(users)}


def arrived(
    ledger: Mapping[str, NDArray[Any]], settings: Mapping[str, str], replica: Replica
) -> NDArray[np.int64]:
    """Return the reports by mechanism of another state, by place on the allow-list of a replica,
    and at the end those without protection that it does not list.

    ValueError for a state without counts, or with others than its allow-list has.
    """
    names = settings.get("mechanisms", "").split(", ")
    counts = ledger_array(ledger, "mechanisms", (len(names) + 1,), np.int64).tolist()
    places = {mechanism.id: place for place, mechanism in enumerate(replica.spec.mechanisms)}
    found = replica.ledger.mechanisms.copy()
    found[-1] = counts[-1]
    for name, count in zip(names, counts, strict=False):
        if name in places:
            found[places[name]] += count
        elif name.startswith(f"{Identity.family}:"):
            found[-1] += count
    return found


def _distinct(columns: list[NDArray[Any] | None]) -> NDArray[np.uint64]:
    """Return the keys of all columns, each once, in order."""
    keys = [key for column in columns if column is not None for key in column.tolist()]
    return np.array(list(dict.fromkeys(keys)), np.uint64)
