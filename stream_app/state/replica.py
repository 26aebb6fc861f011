"""One replica: the state as a pure function of the log, and `apply`, which advances it by a batch.

    records in canonical order --marks--> applied once --hold-out--> learner
                                               |                        |
                                               +--> seen, statistics    +--> ledger
                                               +--> presence rates, where a prior is needed
                                               +--> pairs of items on one device

    changes of other shards ---------------> learner's items, counts, pairs (`exchange/`), where
                                             there are several shards

    entries of campaigns ------------------> plan, public item side (`campaigns/`), where the
                                             privacy mode has campaigns

Every worker holds a whole replica. At the same cut two replicas have the same `model_digest`
(everything that predicts, filters or counts) and the same `ledger_digest` (the outcome of each
record), whatever the delivery interleaving, the batch sizes and the crashes in between. Records
that are rejected change the ledger and nothing else.

A held-out pair is never learned, but it enters the seen filter and the statistics.

Records of an erased device are rejected first: they change the ledger and nothing else.
`Replica.forget` documents what is cleared and what remains.

Where a mechanism protects presence, every cell of a public scope is reported. A report "missing"
updates the presence rates and nothing else. Any other report is learned through its channel and
counted, but its cell does not enter the seen filter: many such reports are fakes, and only the
device knows which items it has rated. Of a mechanism that reports likes both bits are learned, and
the likes are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream.event_columns import (
    count_items,
    digest_events,
    extend_chain,
    held_out,
)
from stream_app.log.exchange_order import Merged
from stream_app.log.ledger import APPLIED, DUPLICATE, JUMPED, Ledger
from stream_app.models.cooccurrence.snapshots import PairSnapshot
from stream_app.models.cooccurrence.visit_lists import DeviceItems
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec, ServedLearner, UpdateResult
from stream_app.models.factorization.presence_rates import (
    PresenceRates,
    learn_from,
    report_information,
)
from stream_app.models.paged_arrays import DirtyMap, StatePart, check_arrays
from stream_app.models.sketches import AmsSketch, CountMinSketch, SeenFilter
from stream_app.privacy.privacy_map import Adjacency
from stream_app.ranking.visit_events import VisitSample
from stream_app.state.campaigns.part import CampaignPart
from stream_app.state.campaigns.progress import Ignored
from stream_app.state.digests import digest
from stream_app.state.erasures import ErasedDevices, words_of
from stream_app.state.exchange.merging import check_next, merge
from stream_app.state.exchange.own_change import change_of
from stream_app.state.exchange.shared_items import Fits, Live, SharedItems
from stream_app.state.high_water_marks import HighWaterMarks
from stream_app.state.known_items import KnownItems
from stream_app.state.outcome import (
    NO_MISSING,
    BatchOutcome,
    MissingReports,
    RatingColumns,
    Records,
)
from stream_app.state.pair_feeds import PairFeeds
from stream_app.state.spec import StateSpec
from stream_app.wire import REASON_CODE, Batch, CampaignEntry, Reason
from stream_app.wire.exchange import Change
from stream_app.wire.state_records import StateOrigin, ledger_root

__all__ = ["BatchOutcome", "Replica", "StateSpec"]

_SEQ_JUMP = np.uint8(REASON_CODE[Reason.SEQ_JUMP])


class Replica:
    """The state; `apply` advances it by one batch and `end_round` closes a round.

    It starts from `origin`: a position in the log, and the devices whose records are ignored.
    """

    def __init__(self, spec: StateSpec, origin: StateOrigin | None = None) -> None:
        self.origin = origin or StateOrigin(0, (0,) * spec.partitions)
        self._follow_spec(spec, Channels.from_mechanisms(spec.mechanisms))
        sizes = spec.factors, spec.depth, spec.sketch_bytes, spec.scalars_bytes
        learner = LearnerSpec(*sizes, Parameters(clip=spec.clip), spec.seed)
        self.learner: ServedLearner = build(spec.model, self.channels, learner)
        self.presence = (
            PresenceRates(self.channels, spec.presence_bytes, seed=spec.seed)
            if report_information(self.channels).any()
            else None
        )
        self.seen = SeenFilter(spec.seen_bytes, seed=spec.seed)
        self.frequencies = CountMinSketch(seed=spec.seed)
        self.second_moment = AmsSketch(seed=spec.seed)
        self.marks = HighWaterMarks(signed=spec.signed)
        self.items = KnownItems(spec.items_most, spec.seed)
        self.pairs = PairFeeds(spec, self.channels)
        self.campaigns = CampaignPart(spec.parties) if spec.parties else None
        self.shared: SharedItems | None = None
        if spec.shards > 1 and isinstance(self.learner, HybridLearner):
            self.shared = SharedItems(spec, self.learner)
        self.ledger = self._fresh_ledger(self.origin)
        self.forgotten = ErasedDevices(self.origin, self.ledger)
        self.cut, self.end_offsets = self.origin.cut, self.origin.end_offsets
        self._item_counts = np.zeros(1024, np.int32)  # scratch, zero between two batches

    def _follow_spec(self, spec: StateSpec, channels: Channels) -> None:
        self.spec, self.channels = spec, channels
        self._threshold = np.uint64(min(int(spec.held_out * 2.0**64), 2**64 - 1))
        self._salt = np.uint64(spec.seed + 0x4E1D)

    def apply(self, batch: Batch) -> BatchOutcome:
        """Advance the state by a batch of one partition, the next in canonical order."""
        reasons = self.marks.admit(batch.epochs, self.forgotten.reasons(batch), batch.days)
        cells = self._cells(batch)
        outcomes, gaps, reused = self.marks.advance(
            batch.devices, batch.seqs, batch.epochs, reasons == 0, self._contents(batch, cells)
        )
        applied = outcomes == APPLIED
        records = Records(batch.devices, batch.mechanisms, batch.counts, batch.epochs.copy())
        duplicates = 0
        if not applied.all():
            reasons = np.where(outcomes == JUMPED, _SEQ_JUMP, reasons)
            duplicates = int((~cells.missing)[np.repeat(outcomes == DUPLICATE, batch.counts)].sum())
            cells = cells.at(np.repeat(applied, batch.counts))
            records = records.at(applied)
        if self._protects(batch):
            reported, rows, update, missing = self._apply_protected(cells, records)
        else:
            reported, missing = cells, NO_MISSING
            update = self.learner.learn_many(*cells[:4], ~cells.held_out)
            self.seen.add_many(cells.users, cells.items)
            rows = self._count(cells.items)
            self.pairs.count_rated(records, cells, update, rows, self.marks)
        self.pairs.extend(self.items, self.marks)
        if self.shared is not None:
            self.shared.learned(rows, len(cells.users), len(self.items))
        offset_sum, chain = timed(
            extend_chain, batch.offsets, outcomes, batch.partition, self.ledger.chain[0]
        )
        held = int(reported.held_out.sum())
        counts = {
            "learned": len(rows) - held,
            "held_out": held,
            "clipped": int((update.clipped & ~reported.held_out).sum()),
            "duplicate": duplicates,
        }
        skipped = int(gaps.sum())
        self.ledger.add(batch.partition, outcomes, reasons, counts, skipped, offset_sum, chain)
        self.ledger.count_mechanisms(records.mechanisms, records.counts)
        self.ledger.reused[batch.partition] += reused.sum()
        return BatchOutcome(
            outcomes, reasons, skipped, reused, duplicates, *reported[:6], rows, update, missing
        )

    def _protects(self, batch: Batch) -> bool:
        """Return whether a mechanism of this batch protects presence."""
        first = self.channels.first[batch.mechanisms]
        return bool(self.channels.presence[first].any())

    def _cells(self, batch: Batch) -> RatingColumns:
        """Return the cells of a batch as the kernels take them."""
        users = np.repeat(batch.devices[:, 0], batch.counts)
        channels = np.repeat(self.channels.numbers(batch.mechanisms), batch.counts)
        channels += batch.masks
        # Decoded columns are read-only views, for which every kernel would be compiled once more.
        items, reports = batch.items.copy(), batch.reports.copy()
        held, missing = np.zeros((2, len(users)), np.bool_)
        timed(held_out, users, items, self._salt, self._threshold, held)
        if self._protects(batch):
            missing = (reports == self.channels.missing[channels]) & ~self.channels.likes[channels]
        priors = np.broadcast_to(np.float32(1), len(users))
        return RatingColumns(users, items, reports, channels, priors, held, missing)

    def _contents(self, batch: Batch, cells: RatingColumns) -> NDArray[np.uint32]:
        """Return the digests of the contents of a batch's records, (n,)."""
        digests = np.empty(len(batch.counts), np.uint32)
        columns = cells.items, cells.reports, cells.channels
        timed(digest_events, batch.epochs, batch.counts, *columns, self._salt, digests)
        return digests

    def _apply_protected(
        self, cells: RatingColumns, records: Records
    ) -> tuple[RatingColumns, NDArray[np.int64], UpdateResult, MissingReports]:
        """Learn records; return the reports other than "missing" with their rows and update, and
        the missing ones. Without presence rates every cell holds a bit, and its prior is 1."""
        priors, starts = np.ones(len(cells.users), np.float32), []
        if self.presence is not None:
            priors = self.presence.priors(records.counts, *cells[:4])
            starts = self.presence.starts
        asked = np.where(cells.missing, np.uint16(NO_CHANNEL), cells.channels)
        columns = *cells[:3], asked, ~cells.held_out, priors
        update = learn_from(self.learner, starts, columns)
        present = ~cells.missing
        reported, absent = cells._replace(priors=priors).at(present), cells.at(cells.missing)
        public = ~self.channels.presence[reported.channels]
        self.seen.add_many(reported.users[public], reported.items[public])
        # A bit "not liked" is learned, but it is no sign of its item.
        signs = reported.reports != self.channels.missing[reported.channels]
        rows = self._count(reported.items, signs)
        self.pairs.count_mixed(records, cells, update, self.items, self.marks)
        missing = MissingReports(
            self.items.rows(absent.items), absent.reports, absent.channels,
            update.predicted[cells.missing],
        )  # fmt: skip
        return reported, rows, UpdateResult._make(column[present] for column in update), missing

    def _count(
        self, items: NDArray[np.uint64], signs: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the rows of a batch's items, -1 for an item without one; count the items, or only
        `signs`."""
        rows = self.items.enter(items)
        if len(self.items) > len(self._item_counts):
            self._item_counts = np.zeros(2 * len(self.items), np.int32)
        counted = rows
        if signs is not None and not signs.all():
            counted, items = rows[signs], items[signs]
        outside = counted < 0
        if outside.any():
            others, counted = items[outside], counted[~outside]
            self.frequencies.add_many(others)
            self.second_moment.add_many(others)
        distinct = np.empty(len(counted), np.int64)
        distinct = distinct[: timed(count_items, counted, self._item_counts, distinct)]
        keys, counts = self.items.keys[distinct], self._item_counts[distinct].astype(np.int64)
        self._item_counts[distinct] = 0
        self.items.count(distinct, counts)
        self.frequencies.add_many(keys, counts)
        self.second_moment.add_many(keys, counts)
        return rows

    def end_round(
        self, number: int, end_offsets: Sequence[int], days: tuple[int, int] | None = None
    ) -> NDArray[np.int64]:
        """Close the round that ends at cut `number`, which accepts events of these days; return the
        rows that have another item now."""
        self.marks.accept(days)
        self.pairs.release(self.marks.evict())
        replaced = self.pairs.end_round(self.items, days)
        if self.shared is not None:
            self.shared.forget(replaced)
        self.cut, self.end_offsets = number, tuple(end_offsets)
        self.ledger.end_round(self.end_offsets)
        return replaced

    @property
    def contract(self) -> int:
        """The version of the event format in force."""
        return int(self.ledger.contract[0])

    def set_contract(self, version: int) -> None:
        """Record the version of the event format by which the next batches were decoded."""
        self.ledger.contract[0] = version

    def redesign(self, spec: StateSpec) -> None:
        """Continue under another design, which changes this one in place (`state/design.py`). Call
        it at a cut, while nothing of the state is frozen."""
        channels = Channels.from_mechanisms(spec.mechanisms)
        self.learner.follow(channels, Parameters(clip=spec.clip))
        if self.presence is not None:
            self.presence.follow(channels)
        elif report_information(channels).any():
            self.presence = PresenceRates(channels, spec.presence_bytes, seed=spec.seed)
        self.pairs = self.pairs.following(spec, channels)
        self.pairs.extend(self.items, self.marks)
        self.ledger.allow(len(spec.mechanisms))
        self._follow_spec(spec, channels)

    def follow(self, entry: CampaignEntry) -> Ignored | None:
        """Apply an entry of a campaign; return why it has no effect, if it has none. Without
        campaigns every entry is passed over."""
        return None if self.campaigns is None else self.campaigns.apply(entry)

    @property
    def unshared(self) -> int:
        """How many of this shard's ratings were learned since its last change that was merged."""
        return 0 if self.shared is None else self.shared.unshared

    def change(
        self, number: int, *, pairs: bool | None = None, fits: Fits | None = None
    ) -> Change | None:
        """Return what this shard has counted and learned and not published, as its change `number`;
        None where there is nothing. The state is untouched. pairs: with tables of pairs, None:
        where they are due; fits (`FITS`): of the weights of lists."""
        if self.shared is None:
            return None
        return change_of(self.shared, self._live, number, self.cut, pairs, fits)

    @property
    def merged(self) -> Merged | None:
        """What is merged, and where the exchange is read on; None where there is one shard."""
        return None if self.shared is None else Merged(self.shared.numbers, self.shared.ends)

    def merge(
        self, changes: Sequence[Change], ends: Sequence[int] | None = None
    ) -> NDArray[np.int64]:
        """Merge changes, between two rounds; return the rows of items with another item side.
        `ends`: where the exchange is read on.

        Raises ValueError, with nothing changed, for one that is not the next of its shard, or of a
        learner of other factors.
        """
        if self.shared is None:
            raise ValueError(f"{len(changes)} changes of shards: there is one shard; merge none")
        check_next(self.shared, self.learner.factors, changes)
        self.shared.read_to(ends or self.shared.ends)
        return merge(self.shared, self._live, changes)

    @property
    def _live(self) -> Live:
        assert isinstance(self.learner, HybridLearner), "the spec lets no other learner be shared"
        return Live(self.learner, self.items, self.frequencies, self.second_moment, self.pairs)

    def forget(self, device: bytes) -> bool:
        """Reject a device from now on and clear its own data; return whether it was known.

        Cleared: its vector and scalars in the learner, which then treats it as an unknown user; its
        sums in the presence rates; its high-water mark; the lists of its recent items, with its
        visits and likes.

        Remaining: its pseudonym, in the ledger, in the marks and (half of it) as the key of a dense
        row or the tag of a slot; the bits of its pairs in the seen filter, from which a reader who
        knows the pseudonym can infer what it has probably rated; its ratings in the item counts and
        in the ledger's sums; the pairs of items that it had together, in the counts of all
        devices; the influence of its ratings on items, on the overall mean and on the
        presence rates of items; a slot of scalars or sums shared with other users; in a sketch, the
        changes of cells shared with other users.

        A device without an applied record, or one erased before, changes only the list of erased
        devices.
        """
        return self.forgotten.add(words_of(device)) and self.clear(device)

    def clear(self, device: bytes) -> bool:
        """Clear a device's own data, rejected or not; return whether it was known."""
        words = words_of(device)
        if not self.marks.forget(words):
            return False
        self.learner.forget(words[0])
        if self.presence is not None:
            self.presence.forget(words[0])
        self.pairs.clear(int(self.marks.rows(words.reshape(1, 2))[0]))
        return True

    def history(self, device: bytes, *, reported: bool = False) -> DeviceItems:
        """Return the head items that a device has rated, oldest first, with weights, visits and
        ages; empty for an unknown device. `reported`: those of its reports that protect presence,
        all of weight 1 and of one age."""
        row = int(self.marks.rows(words_of(device).reshape(1, 2))[0])
        return self.pairs.history(row, self.items, reported=reported)

    def pair_snapshot(self) -> PairSnapshot | None:
        """Return a copy of what goes together, for another thread; None before the first pair.

        Call it at a cut. It is of the public feed, or of that of presence-protecting reports where
        more devices are in the latter.
        """
        return self.pairs.snapshot(self.items, self.cut)

    def visit_samples(self) -> tuple[VisitSample, VisitSample] | None:
        """Return lists of devices with their visits, for another thread, from which the weights of
        the two lists are learned; None where no presence is public. Call it at a cut."""
        return self.pairs.visit_samples()

    def model_digest(self) -> str:
        """Return the digest of everything that predicts, filters or counts."""
        return digest(self.spec.digest, self.model_arrays())

    def parts(self) -> dict[str, StatePart]:
        """Return the parts that predict, filter or count, by name."""
        presence: dict[str, StatePart] = {"presence": self.presence} if self.presence else {}
        campaigns: dict[str, StatePart] = {"campaigns": self.campaigns} if self.campaigns else {}
        return {
            **presence,
            **campaigns,
            **self.pairs.parts(),
            **(self.shared.parts() if self.shared else {}),
            "learner": self.learner,
            "seen": self.seen,
            "frequencies": self.frequencies,
            "second_moment": self.second_moment,
            "marks": self.marks,
            "items": self.items,
        }

    def model_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of all parts, not copies: C-contiguous, and a function of the log."""
        parts = self.parts().items()
        return {f"{name}.{key}": a for name, part in parts for key, a in part.arrays().items()}

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return for each array one byte a page: 1 where the page may have changed since the byte
        was cleared."""
        parts = self.parts().items()
        return {f"{name}.{key}": a for name, part in parts for key, a in part.dirty_pages().items()}

    @property
    def growing(self) -> frozenset[str]:
        """The names of the arrays whose first dimension grows."""
        return frozenset(
            f"{name}.{key}" for name, part in self.parts().items() for key in part.growing
        )

    def load(
        self,
        model: Mapping[str, NDArray[Any]],
        ledger: Mapping[str, NDArray[Any]],
        cut: int,
        end_offsets: Sequence[int],
        origin: StateOrigin,
    ) -> None:
        """Replace the whole state in place: every part remains the same object.

        Raises ValueError where names, types or shapes do not fit the spec; the state is then
        unchanged, except where an array holds a key twice.
        """
        check_arrays(model, self.model_arrays(), self.growing)
        counted = self._ledger_of(ledger, end_offsets, origin)
        for name, part in self.parts().items():
            part.load({key: model[f"{name}.{key}"] for key in part.arrays()})
        self._place_at(counted, cut, end_offsets, origin)

    def resize(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Give every array of the model its shape, to be filled through `model_arrays()`; then
        call `index`. Raises ValueError where the shapes do not fit the spec.

        Rows that remain keep their contents and new ones are zero. Until `index` the replica only
        holds bytes: it is not to be asked anything.
        """
        expected = self.model_arrays()
        for name, own in expected.items():
            first = int(name in self.growing)
            if len(shapes.get(name, ())) != own.ndim or shapes[name][first:] != own.shape[first:]:
                raise ValueError(
                    f"array {name} has shape {shapes.get(name)}, and the spec requires "
                    f"{own.shape}: use the state of the same spec"
                )
        if odd := sorted(shapes.keys() - expected.keys()):
            raise ValueError(f"arrays {odd}: the state has {sorted(expected)}, no more")
        for name, part in self.parts().items():
            part.resize({key: shapes[f"{name}.{key}"][0] for key in part.growing})

    def index(
        self,
        ledger: Mapping[str, NDArray[Any]],
        cut: int,
        end_offsets: Sequence[int],
        origin: StateOrigin,
    ) -> None:
        """Make the arrays, which were filled in place, the state at `cut`.

        Raises ValueError where they are no state; the replica is then of no use.
        """
        counted = self._ledger_of(ledger, end_offsets, origin)
        for part in self.parts().values():
            part.index()
        self._place_at(counted, cut, end_offsets, origin)

    def _ledger_of(
        self, arrays: Mapping[str, NDArray[Any]], end_offsets: Sequence[int], origin: StateOrigin
    ) -> Ledger:
        """Return a ledger; raises ValueError unless it covers the log up to `end_offsets`."""
        ledger = self._fresh_ledger(origin)
        ledger.load(arrays)
        if ledger.starts.tolist() != list(origin.end_offsets) or ledger.ends.tolist() != list(
            end_offsets
        ):
            raise ValueError(
                f"ledger from {ledger.starts.tolist()} to {ledger.ends.tolist()}: the state goes "
                f"from {list(origin.end_offsets)} to {list(end_offsets)}"
            )
        return ledger

    def _place_at(
        self, ledger: Ledger, cut: int, end_offsets: Sequence[int], origin: StateOrigin
    ) -> None:
        self.ledger.load(ledger.arrays())
        self.origin, self.cut, self.end_offsets = origin, cut, tuple(end_offsets)
        self.forgotten = ErasedDevices(origin, self.ledger)

    def take(self, other: Replica) -> None:
        """Take over the whole state and the spec of a replica, which must not be used again.

        Nothing is copied: the former state is released, and the parts are those of `other`.
        """
        self._follow_spec(other.spec, other.channels)
        self.learner, self.presence, self.seen = other.learner, other.presence, other.seen
        self.frequencies, self.second_moment = other.frequencies, other.second_moment
        self.marks, self.items, self.pairs = other.marks, other.items, other.pairs
        self.campaigns, self.shared = other.campaigns, other.shared
        self.ledger, self.forgotten = other.ledger, other.forgotten
        self.origin, self.cut, self.end_offsets = other.origin, other.cut, other.end_offsets

    def restart(self, origin: StateOrigin, spec: StateSpec | None = None) -> None:
        """Start over from an untrained state, of another spec if given."""
        self.take(Replica(spec or self.spec, origin))

    def adopt(
        self,
        model: Mapping[str, NDArray[Any]],
        ledger: Mapping[str, NDArray[Any]],
        origin: StateOrigin,
    ) -> None:
        """Start from the model of another log: as `load`, but with an empty ledger from `origin`
        on that keeps the list of erased devices and the counts by mechanism.

        Raises ValueError as `load`, and where the ledger has no such list or counts.
        """
        fresh = self._fresh_ledger(origin)
        fresh.carry(ledger)
        self.load(model, fresh.arrays(), origin.cut, origin.end_offsets, origin)

    def _fresh_ledger(self, origin: StateOrigin) -> Ledger:
        spec = self.spec
        return Ledger(spec.partitions, origin.end_offsets, origin.contract, len(spec.mechanisms))

    @property
    def privacy(self) -> str:
        """The privacy mode of what the state holds: `none` where a report of it had a mechanism
        that protects nothing, else `local`; which mechanisms are allowed does not matter."""
        raw = [each.adjacency is Adjacency.NOTHING for each in self.spec.mechanisms]
        return "none" if self.ledger.mechanisms[[*raw, True]].any() else "local"

    def reports_by_mechanism(self) -> dict[str, int]:
        """Return how many reports of each mechanism the state was made from; `unlisted`: those of
        an adopted state, without protection, whose mechanism is no longer allowed."""
        names = [*(each.id for each in self.spec.mechanisms), "unlisted"]
        counts = zip(names, self.ledger.mechanisms.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def ledger_digest(self) -> str:
        """Return the digest of the ledger: the outcome of each record."""
        return ledger_root(self.spec.digest, self.ledger.small_arrays())

    def memory(self) -> dict[str, int]:
        """Return the bytes that each part of the state holds."""
        return {
            "learner": self.learner.memory_bytes,
            "presence": self.presence.memory_bytes if self.presence else 0,
            "seen": self.seen.memory_bytes,
            "statistics": self.frequencies.memory_bytes + self.second_moment.memory_bytes,
            "marks": self.marks.memory_bytes,
            "items": self.items.memory_bytes + self._item_counts.nbytes,
            "pairs": self.pairs.memory_bytes,
            "campaigns": self.campaigns.memory_bytes if self.campaigns else 0,
            **({"shared": self.shared.memory_bytes} if self.shared else {}),
        }
