"""What a journal releases, and what it returns: bytes that are safe to send.

Generic over what is released: ratings are one kind of request (`producers.device.requests`), a
campaign is another. The journal knows neither items nor wire formats, only a debit, the reported
keys, a mechanism that draws from a ticket, and a function that encodes what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from producers.person.reports import Costing
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import Releasing
from stream_app.wire import DEVICE_BYTES

WHOLE = (slice(None),)


class Drawing(Costing, Releasing, Protocol):
    """A mechanism: its claim, the proof of it, and `release(raw_inputs, ticket[, masks])`."""

    def release(self, inputs: Any, source: RandomSource) -> Any:
        """Turn inputs into what may be published; the only place where noise is drawn."""


@dataclass(eq=False, repr=False, slots=True)  # raw inputs have no place in a log
class Request:
    """One device's release: all of it is paid, recorded and returned, or nothing is.

    device      the pseudonym, 16 bytes
    topic       the full name of the topic its messages go to
    reported_keys  (m,) uint64, rising and distinct: what is reported on. In one `scope` each key is
                reported `Limits.reports` times, unless `republish`; ratings use the item's key
                in the scope "rating"
    mechanism   draws, once; what it claims is debited `count` times under its adjacency
    raw_inputs  what `mechanism.release` gets, with `masks` where they are not None
    count       how many reports the ticket is for and the debit pays, as the mechanism counts them
    encode      (seq, part, released, test) -> the record's value, for each of `parts` (slices of
                what was released, of one message each); the seqs of a (device, topic) rise by one.
                `test` is the journal's: its noise can be replayed, and the event must say so
    epoch       of the release, from `Journal.epoch`; debits are kept by it
    joined      whether reports of several requests may be drawn in one call: `raw_inputs` and
                `masks` are columns then, one row a reported key, and so is what is released
    paid_by     a key that the device has reported in `scope` in this epoch, under this mechanism,
                whose debit covers this release too; None: this release is debited
    """

    device: bytes
    topic: str
    reported_keys: NDArray[np.uint64]
    mechanism: Drawing
    raw_inputs: Any
    count: int
    encode: Callable[[int, slice, Any, bool], bytes]
    epoch: int
    scope: str = "rating"
    parts: tuple[slice, ...] = WHOLE
    masks: NDArray[np.uint16] | None = None
    republish: bool = False
    joined: bool = False
    paid_by: int | None = None

    def __post_init__(self) -> None:
        if len(self.device) != DEVICE_BYTES:
            raise ValueError(f"device of {len(self.device)} bytes: a pseudonym has {DEVICE_BYTES}")
        many = len(self.reported_keys)
        if many != 1 and (not many or not (self.reported_keys[1:] > self.reported_keys[:-1]).all()):
            raise ValueError(
                "reported_keys: give rising, distinct keys, 1 or more; each is reported once"
            )
        if not 0 <= self.epoch < 2**32:
            raise ValueError(f"epoch {self.epoch}: must be 0 .. 2^32-1 (days since 1970)")
        if self.count < 1 or not self.parts:
            raise ValueError(
                f"{self.count} reports in {len(self.parts)} messages: a release has 1 or more of "
                "each"
            )
        if self.joined:
            self._check_columns(many)

    def _check_columns(self, many: int) -> None:
        # Drawing more than is paid for would overrun the budget, so all lengths are checked.
        inputs = len(self.raw_inputs)
        masks = self.count if self.masks is None else len(self.masks)
        if not inputs == self.count == many == masks:
            raise ValueError(
                f"{inputs} inputs, {self.count} reports, {many} reported keys, {masks} masks: "
                "a joined release has equally many of each"
            )


class Message(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are durable in the journal: send exactly these, as often as it takes."""

    number: int  # of the message in its journal, for `Journal.acknowledge`
    device: bytes
    seq: int
    topic: str
    value: bytes

    @property
    def key(self) -> bytes:
        """The record key: the pseudonym as 32 hex characters."""
        return self.device.hex().encode()
