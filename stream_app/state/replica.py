"""One replica: the state that is a pure function of the log, and the one function that moves it on.

    records in canonical order --marks--> applied once --hold-out--> learner
                                               |                        |
                                               +--> seen, statistics    +--> ledger
                                               +--> presence rates, where presence is protected

Every worker holds a whole replica. At the same cut two replicas have the same `model_digest`
(everything that predicts, filters or counts) and the same `ledger_digest` (what happened to each
record), whatever the delivery interleaving, the batch sizes and the crashes in between. Records
that are set aside change the ledger and nothing else.

A held-out pair is never learned; it is seen and counted all the same.

A device that was forgotten is refused before anything else: its records change the ledger and
nothing else. `Replica.forget` says what is cleared and what remains.

Where a mechanism protects presence, every cell of a public scope is sent. A report that says
nothing teaches how often there is a rating at all and touches nothing else. A report that says
something is learned for what it is worth and counted, but its cell is not taken for seen: many are
fakes, and the device alone knows what it has rated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.sketches.item_counts import tally
from stream_app.kernels.stream.holdout import held_out
from stream_app.kernels.stream.ledger_chain import enter
from stream_app.log.ledger import APPLIED, DUPLICATE, JUMPED, Ledger
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.factory import build_durable
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import DurableLearner, LearnerSpec, UpdateResult
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.models.paged_arrays import DirtyMap, StatePart, check_arrays
from stream_app.models.sketches.ams import AmsSketch
from stream_app.models.sketches.bloom import SeenFilter
from stream_app.models.sketches.count_min import CountMinSketch
from stream_app.state.digests import digest
from stream_app.state.erasures import Forgotten, words_of
from stream_app.state.high_water_marks import Marks
from stream_app.state.item_directory import Directory
from stream_app.state.outcome import Outcome
from stream_app.state.rating_columns import SILENCE, Cells, Silent
from stream_app.state.spec import StateSpec
from stream_app.wire import REASON_CODE, Batch, Reason
from stream_app.wire.state_records import StateOrigin, ledger_root

__all__ = ["Outcome", "Replica", "StateSpec"]

_SEQ_JUMP = np.uint8(REASON_CODE[Reason.SEQ_JUMP])


class Replica:
    """The state; `apply` moves it on by one batch and `end_round` closes a round.

    It starts from `origin`: where the log is taken up, and whose records are passed over as if they
    had never been.
    """

    def __init__(self, design: StateSpec, origin: StateOrigin | None = None) -> None:
        self.design = design
        self.origin = origin or StateOrigin(0, (0,) * design.partitions)
        self.channels = Channels.from_mechanisms(design.mechanisms)
        self.learner: DurableLearner = build_durable(
            design.model,
            self.channels,
            LearnerSpec(
                factors=design.factors,
                depth=design.depth,
                sketch_bytes=design.sketch_bytes,
                scalars_bytes=design.scalars_bytes,
                parameters=Parameters(clip=design.clip),
                seed=design.seed,
            ),
        )
        self.presence = (
            PresenceRates(self.channels, design.presence_bytes, seed=design.seed)
            if self.channels.presence.any()
            else None
        )
        self.seen = SeenFilter(design.seen_bytes, seed=design.seed)
        self.frequencies = CountMinSketch(seed=design.seed)
        self.second_moment = AmsSketch(seed=design.seed)
        self.marks = Marks()
        self.items = Directory()
        self.ledger = Ledger(design.partitions, self.origin.end_offsets)
        self.forgotten = Forgotten(self.origin, self.ledger)
        self.cut, self.end_offsets = self.origin.cut, self.origin.end_offsets
        self._threshold = np.uint64(min(int(design.held_out * 2.0**64), 2**64 - 1))
        self._tally = np.zeros(1024, np.int64)  # scratch, zero between two batches
        self._salt = np.uint64(design.seed + 0x4E1D)

    def apply(self, batch: Batch) -> Outcome:
        """Move the state on by a batch of one partition, the next in canonical order."""
        reasons = self.forgotten.reasons(batch)
        outcomes, gaps = self.marks.advance(batch.devices, batch.seqs, reasons == 0)
        cells, applied = self._cells(batch), outcomes == APPLIED
        again = 0
        if not applied.all():
            reasons = np.where(outcomes == JUMPED, _SEQ_JUMP, reasons)
            again = int((~cells.silent)[np.repeat(outcomes == DUPLICATE, batch.counts)].sum())
            cells = cells.at(np.repeat(applied, batch.counts))
        if self.presence is not None and self._protects(batch):
            told, rows, update, silent = self._apply_hidden(
                self.presence, cells, batch.counts[applied]
            )
        else:
            told, silent = cells, SILENCE
            update = self.learner.learn_many(*cells[:4], ~cells.held)
            self.seen.add_many(cells.users, cells.items)
            rows = self._count(cells.items)
        offset_sum, chain = enter(batch.offsets, outcomes, batch.partition, self.ledger.chain[0])
        held = int(told.held.sum())
        counts = {
            "learned": len(rows) - held,
            "held_out": held,
            "clipped": int((update.clipped & ~told.held).sum()),
            "duplicate": again,
        }
        skipped = int(gaps.sum())
        self.ledger.add(batch.partition, outcomes, reasons, counts, skipped, offset_sum, chain)
        return Outcome(outcomes, reasons, skipped, again, *told[:6], rows, update, silent)

    def _protects(self, batch: Batch) -> bool:
        """Return whether a mechanism of this batch protects presence."""
        first = self.channels.first[batch.mechanisms]
        return bool(self.channels.presence[first].any())

    def _cells(self, batch: Batch) -> Cells:
        """Return the cells of a batch as the kernels take them."""
        users = np.repeat(batch.devices[:, 0], batch.counts)
        channels = np.repeat(self.channels.numbers(batch.mechanisms), batch.counts)
        channels += batch.masks
        # Decoded columns are read-only views, for which every kernel would be compiled once more.
        items, reports = batch.items.copy(), batch.reports.copy()
        held, silent = np.zeros((2, len(users)), np.bool_)
        held_out(users, items, self._salt, self._threshold, held)
        if self._protects(batch):
            silent = reports == self.channels.missing[channels]
        priors = np.broadcast_to(np.float32(1), len(users))
        return Cells(users, items, reports, channels, priors, held, silent)

    def _apply_hidden(
        self, presence: PresenceRates, cells: Cells, counts: NDArray[np.int64]
    ) -> tuple[Cells, NDArray[np.int64], UpdateResult, Silent]:
        """Learn records of `counts` cells; return what says something, its rows and update, and
        the rest."""
        priors = presence.priors(counts, *cells[:4])
        asked = np.where(cells.silent, np.uint16(NO_CHANNEL), cells.channels)
        update = self.learner.learn_many(*cells[:3], asked, ~cells.held, priors)
        says = ~cells.silent
        told, quiet = cells._replace(priors=priors).at(says), cells.at(cells.silent)
        public = ~self.channels.presence[told.channels]
        self.seen.add_many(told.users[public], told.items[public])
        rows = self._count(told.items)
        silent = Silent(
            self.items.rows(quiet.items), quiet.reports, quiet.channels,
            update.predicted[cells.silent],
        )  # fmt: skip
        return told, rows, UpdateResult._make(column[says] for column in update), silent

    def _count(self, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Count the items of a batch and return their rows in the directory."""
        rows = self.items.rows(items, add=True)
        if len(self.items) > len(self._tally):
            self._tally = np.zeros(2 * len(self.items), np.int64)
        distinct = np.empty(len(rows), np.int64)
        distinct = distinct[: tally(rows, self._tally, distinct)]
        keys, counts = self.items.keys[distinct], self._tally[distinct]
        self._tally[distinct] = 0
        self.frequencies.add_many(keys, counts)
        self.second_moment.add_many(keys, counts)
        return rows

    def end_round(self, number: int, end_offsets: Sequence[int]) -> None:
        """Close the round that cut `number` ends."""
        self.cut, self.end_offsets = number, tuple(end_offsets)
        self.ledger.end_round(self.end_offsets)

    def forget(self, device: bytes) -> bool:
        """Refuse a device from here on and clear what is its own; return whether it was known.

        Cleared: its vector and scalars in the learner, which then reads it as an unknown user; its
        sums in the presence rates; its mark. Remaining: its pseudonym, in the ledger, in the marks
        and (half of it) as the key of a dense row or the tag of a slot; the bits that its pairs set
        in the seen filter, which tell whoever knows the pseudonym what it has probably rated; its
        ratings in the counts of items and in the ledger's sums; what items, the overall mean and
        the presence rates of items learned from it; a slot of scalars or sums that it shares with
        others; in a sketch, what its cells shared with others had taken on. A device of which no
        record was applied changes the list of the forgotten alone, and so does one forgotten
        before.
        """
        return self.forgotten.add(words_of(device)) and self.clear(device)

    def clear(self, device: bytes) -> bool:
        """Clear what is a device's own, be it refused or not; return whether it was known."""
        words = words_of(device)
        if not self.marks.forget(words):
            return False
        self.learner.forget(words[0])
        if self.presence is not None:
            self.presence.forget(words[0])
        return True

    def model_digest(self) -> str:
        """Return the digest of everything that predicts, filters or counts."""
        return digest(self.design.digest, self.model_arrays())

    def parts(self) -> dict[str, StatePart]:
        """Return what predicts, filters or counts, by name."""
        presence: dict[str, StatePart] = {"presence": self.presence} if self.presence else {}
        return presence | {
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
        """Return for each array one byte a page: set since it was last cleared where the page may
        have changed."""
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
        """Replace the whole state, in place: every part remains the object that it was.

        Raises ValueError where names, types or shapes do not fit the design; nothing is replaced
        then, except where keys stand in an array twice.
        """
        check_arrays(model, self.model_arrays(), self.growing)
        fresh = Ledger(self.design.partitions, origin.end_offsets)
        fresh.load(ledger)
        if fresh.starts.tolist() != list(origin.end_offsets) or fresh.ends.tolist() != list(
            end_offsets
        ):
            raise ValueError(
                f"ledger from {fresh.starts.tolist()} to {fresh.ends.tolist()}: the state goes "
                f"from {list(origin.end_offsets)} to {list(end_offsets)}"
            )
        for name, part in self.parts().items():
            held = part.arrays()
            part.load({key: model[f"{name}.{key}"] for key in held})
        self.ledger.load(fresh.arrays())
        self.origin, self.cut, self.end_offsets = origin, cut, tuple(end_offsets)
        self.forgotten = Forgotten(origin, self.ledger)

    def restart(self, origin: StateOrigin) -> None:
        """Start over, in place, from a state that has seen nothing."""
        fresh = Replica(self.design, origin)
        self.load(
            fresh.model_arrays(), fresh.ledger.arrays(), origin.cut, origin.end_offsets, origin
        )

    def adopt(
        self,
        model: Mapping[str, NDArray[Any]],
        ledger: Mapping[str, NDArray[Any]],
        origin: StateOrigin,
    ) -> None:
        """Start from a model of elsewhere: as `load`, but what is counted begins at `origin`, and
        who was forgotten there is forgotten here."""
        fresh = Ledger(self.design.partitions, origin.end_offsets)
        fresh.forgotten = np.array(ledger["forgotten"], np.uint64).reshape(-1, 2)
        self.load(model, fresh.arrays(), origin.cut, origin.end_offsets, origin)

    def ledger_digest(self) -> str:
        """Return the digest of what happened to each record."""
        return ledger_root(self.design.digest, self.ledger.small_arrays())

    def memory(self) -> dict[str, int]:
        """Return the bytes that each part of the state holds."""
        return {
            "learner": self.learner.memory_bytes,
            "presence": self.presence.memory_bytes if self.presence else 0,
            "seen": self.seen.memory_bytes,
            "statistics": self.frequencies.memory_bytes + self.second_moment.memory_bytes,
            "marks": self.marks.memory_bytes,
            "items": self.items.memory_bytes,
        }
