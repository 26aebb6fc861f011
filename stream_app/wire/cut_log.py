"""The entries of the cut log, which fixes the order of all work of every replica.

    cut       the end of a round; the rounds in sequence are the canonical order
    forget    later records of this device are rejected, and the device's own state is cleared
    contract  later rounds are decoded by this version of the event format
    report    the digests of a durable checkpoint at an earlier cut, for other replicas to compare
    design    the settings of the deployment from here on (`state/design.py`)
    merge     the changes of the other shards, and its own, up to these offsets are merged
    truncate  the cuts after an earlier one are superseded, because the log lost their records
    campaign, released, aborted
              the plan of a campaign, the noisy sum of a stage, the end of one without a sum
              (`campaigns/cut_entries.py`)

Every entry is JSON with a `kind`; an entry without `kind` is a cut. All but digest reports (their
tag on the wire is `witness`) decide the state.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from stream_app.wire.campaigns.cut_entries import Aborted, CampaignPlan, Released, SealedEntry
from stream_app.wire.campaigns.plan import decode_rational
from stream_app.wire.campaigns.round_log import LogEntry
from stream_app.wire.decoding import version_reason
from stream_app.wire.events import Epoch
from stream_app.wire.limits import MAX_ENTRY_BYTES, MAX_EVENT_BYTES, MAX_SEQ, VERSION
from stream_app.wire.reasons import Reason, WireError

_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_Fingerprint = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{16})?$")]

MAX_TRUNCATED = MAX_SEQ // 4
"""The greatest cut number that a truncation supersedes: numbers after it remain."""


class Cut(LogEntry, frozen=True, tag="cut"):
    """The end of a round: `end_offsets[p]` is the first offset of partition p that is not in it.

    `design` is the fingerprint of the writer's learner and settings: a worker of another design
    reads the same cuts but has another state, and reports the difference. At a cut with
    `checkpoint` every replica takes its digest, so that replicas can be compared.

    `days` are the first and the last day of which the round's events are accepted, as the writer
    decided (`log/cut_clock.py`); without them events of every day are, or of every day since the
    oldest one that an earlier cut has named.

    `tails` holds for each partition the fingerprint of the last record below
    `end_offsets`, as the writer received it, or "" where the writer has received none. No tails: an
    older writer.
    """

    number: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    end_offsets: Annotated[tuple[_Number, ...], msgspec.Meta(min_length=1)] = msgspec.field(
        name="ends"
    )
    epoch: Epoch
    design: Annotated[str, msgspec.Meta(max_length=32)] = ""
    checkpoint: bool = False
    tails: tuple[_Fingerprint, ...] = ()
    days: tuple[Epoch, Epoch] | msgspec.UnsetType = msgspec.UNSET

    @property
    def accepted_days(self) -> tuple[int, int] | None:
        """`days`; None without them."""
        return None if self.days is msgspec.UNSET else self.days

    def accepting(self, days: tuple[int, int]) -> Cut:
        """Return this cut with `days`."""
        return msgspec.structs.replace(self, days=days)


class Forget(LogEntry, frozen=True, tag="forget"):
    """Reject later events of this device.

    With `rebuild` the state becomes that of a log without any record of the device; otherwise only
    the device's own entries are cleared.
    """

    device: _Digest
    rebuild: bool = False


class Contract(LogEntry, frozen=True, tag="contract"):
    """From the round that the next cut ends on, events are decoded by this version of their format.

    The log decides, not the software: replicas of different releases decode the same record alike,
    and one that does not know the version ends. A version that is not above the one in force has no
    effect.
    """

    version: Annotated[int, msgspec.Meta(ge=1, le=2**15 - 1)]


class DigestReport(SealedEntry, frozen=True, tag="witness"):
    """The digests of a durable checkpoint at its cut, and of the origin of its state; `seal` (hex)
    if the deployment has a secret."""

    cut: _Number
    model: _Digest
    ledger: _Digest
    design: Annotated[str, msgspec.Meta(max_length=32)]
    origin: _Digest = msgspec.field(name="base")
    sealed_as: ClassVar[bytes] = b"witness"


class DesignEntry(SealedEntry, frozen=True, tag="design"):
    """From the round that the next cut ends on, the deployment has these settings (as text).

    An entry takes effect only if `replaces` is the fingerprint of the design in force before it, so
    of two writers at once one wins, and a repeated entry does nothing; "" opens a log that has no
    cut. `before` are the settings that it replaces, for a replay from the beginning. With
    `built_to` the state of the new design was built beside, up to that cut, and takes over. `seal`
    (hex) if the deployment has a secret; an entry without it has no effect then.
    """

    replaces: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")]
    before: dict[str, str]
    settings: dict[str, str]
    built_to: _Number | None = None
    sealed_as: ClassVar[bytes] = b"design"

    def sealed_bytes(self) -> bytes:
        """Return what the seal covers: the order of the settings is no part of it."""
        return msgspec.json.encode(self, order="sorted")


class Merge(SealedEntry, frozen=True, tag="merge"):
    """Before the round that the next cut ends, the changes of the exchange that count are merged:
    for each shard those below its end offset. One that moves no end on, or one back, has no effect;
    `seal` as in a digest report."""

    ends: Annotated[tuple[_Number, ...], msgspec.Meta(min_length=2)]
    sealed_as: ClassVar[bytes] = b"merge"


class Truncate(LogEntry, frozen=True, tag="truncate"):
    """The cuts `to_cut` + 1 to `newest` are superseded; the next cut has the number `newest` + 1.

    Forgets among them stay in force. `newest` is well above every number in use, so that a cut or
    checkpoint of a frozen worker that is written later is superseded, too, and no number is used
    for two states.
    """

    to_cut: Annotated[int, msgspec.Meta(ge=0, le=MAX_TRUNCATED)]
    newest: Annotated[int, msgspec.Meta(ge=0, le=MAX_TRUNCATED)]


Change = Forget | Contract | DesignEntry | Truncate | Merge
Entry = Cut | DigestReport | Change | CampaignPlan | Released | Aborted

_decoder = msgspec.json.Decoder(Entry, dec_hook=decode_rational)
_bare = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_entry(value: bytes | None) -> Entry:
    """Return the entry in a record's value; raises `WireError` and nothing else.

    A plan or a noisy sum takes at most `MAX_ENTRY_BYTES`, any other entry `MAX_EVENT_BYTES`.
    """
    if not value:
        raise WireError(Reason.EMPTY)
    large = len(value) > MAX_EVENT_BYTES
    if len(value) > MAX_ENTRY_BYTES:
        raise WireError(Reason.TOO_LARGE)
    try:
        fields = _bare.decode(value)
        if "kind" not in fields:
            value = msgspec.json.encode({"kind": "cut", **fields})
        entry: Entry = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(Reason.TOO_LARGE if large else version_reason(value)) from None
    if large and not isinstance(entry, CampaignPlan | Released):
        raise WireError(Reason.TOO_LARGE)
    if entry.v != VERSION or (isinstance(entry, CampaignPlan) and entry.plan.v != VERSION):
        raise WireError(Reason.UNKNOWN_VERSION)
    return entry
