"""The entries of the cut log, the one record of what every replica does and in which order.

    cut       the end of a round; the rounds between two cuts are the canonical order
    forget    from here on this device is refused, and what is its own is cleared
    witness   what the owner of the clock holds at an earlier cut, for others to compare

Each is JSON with a `kind`; an entry without one is a cut. Cuts and forgets decide the state;
digest reports do not.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from stream_app.wire.decoding import version_reason
from stream_app.wire.events import Epoch
from stream_app.wire.limits import MAX_EVENT_BYTES, MAX_SEQ, VERSION
from stream_app.wire.reasons import Reason, WireError

_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="cut"):
    """The end of a round: `end_offsets[p]` is the first offset of partition p that is not in it.

    `design` is the fingerprint of what the writer learns with: a worker that learns otherwise reads
    the same cuts, but its state is another one, and it says so. At a cut with `checkpoint` every
    replica takes its digest, so that they can be compared.
    """

    number: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    end_offsets: Annotated[tuple[_Number, ...], msgspec.Meta(min_length=1)] = msgspec.field(
        name="ends"
    )
    epoch: Epoch
    design: Annotated[str, msgspec.Meta(max_length=32)] = ""
    checkpoint: bool = False
    v: int = VERSION


class Forget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="forget"
):
    """From here on events of this device are refused.

    With `rebuild` the state becomes that of a log in which the device never was; without, only what
    is the device's own is cleared.
    """

    device: _Digest
    rebuild: bool = False
    v: int = VERSION


class DigestReport(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="witness"
):
    """The digests that a durable checkpoint holds at its cut; `origin` names what the state started
    from."""

    cut: _Number
    model: _Digest
    ledger: _Digest
    design: Annotated[str, msgspec.Meta(max_length=32)]
    origin: _Digest = msgspec.field(name="base")
    v: int = VERSION


Entry = Cut | Forget | DigestReport

_decoder = msgspec.json.Decoder(Entry)
_bare = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_entry(value: bytes | None) -> Entry:
    """Return the entry in a record's value; raises `WireError` and nothing else."""
    if not value:
        raise WireError(Reason.EMPTY)
    if len(value) > MAX_EVENT_BYTES:
        raise WireError(Reason.TOO_LARGE)
    try:
        fields = _bare.decode(value)
        if "kind" not in fields:
            value = msgspec.json.encode({"kind": "cut", **fields})
        entry: Entry = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError(version_reason(value)) from None
    if entry.v != VERSION:
        raise WireError(Reason.UNKNOWN_VERSION)
    return entry
