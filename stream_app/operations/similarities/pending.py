"""A drawn table that waits for its topic: a file, so that a killed release sends the same bytes.

    digest:16  MessagePack {release, cut, table}

It is written and synced before the first record is sent, and removed when the topic holds the
whole version. Noise that was drawn and is in no such file was never sent, and is not drawn
again: its debit counts, and the next release has one of its own. The table is public once the
first of its pages is sent; until then the file is readable for its owner alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec

from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.wire.limits import MAX_SEQ, MAX_TABLE_BYTES, VERSION

_DIGEST_BYTES = 16


class PendingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as bytes, its number and the cut whose lists it sums."""

    release: Annotated[int, msgspec.Meta(ge=1)]
    cut: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    table: Annotated[bytes, msgspec.Meta(max_length=MAX_TABLE_BYTES)]
    v: int = VERSION


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PendingTable)


@dataclass(frozen=True)
class PendingFile:
    """The file of one deployment on this machine."""

    path: Path

    @classmethod
    def of_deployment(cls, folder: Path, bootstrap: str, prefix: str) -> PendingFile:
        """Return the file in `data_dir`, named by the address and the prefix of the topics."""
        name = blake2b(f"{bootstrap}\0{prefix}".encode(), digest_size=8).hexdigest()
        return cls(folder / "similarities" / f"{name}.pending")

    def read(self) -> PendingTable | None:
        """Return what waits, None where nothing does; a damaged file is no table."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from None
        try:
            if _digest(data[_DIGEST_BYTES:]) != data[:_DIGEST_BYTES]:
                raise ValueError("its digest is another")
            return _decoder.decode(data[_DIGEST_BYTES:])
        except ValueError as error:
            raise UserError(
                f"{self.path}: holds no table ({error}); remove it: its debit counts, and the next "
                "release has one of its own"
            ) from None

    def write(self, pending: PendingTable) -> None:
        """Replace the file at once, and sync it; UserError where the system refuses."""
        body = _encoder.encode(pending)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            durable_file.replace(self.path, _digest(body) + body)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be written ({error.strerror}); the table was not sent, and "
                "its debit counts"
            ) from None

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self.path.unlink(missing_ok=True)


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES).digest()
