"""The whole state in one file, to be kept, compared or started from: arrays and what they are of.

    model.<name>.npy, ledger.<name>.npy    arrays as numpy writes them
    meta.json                              format, design, cut, origin, and the digests of all of it

A zip of arrays that `numpy.load(path, allow_pickle=False)` reads as well; nothing in it is
compressed, and equal states give equal files. Whoever reads one gets a state whose digests are
right, or a `UserError`: nothing that was damaged, made with another design or by a newer version is
taken for good, and nothing in it is run. It holds what the server holds: released reports in sums,
and pseudonyms.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app import __version__
from stream_app.errors import UserError
from stream_app.state.digests import digest
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec, settings_digest
from stream_app.wire.state_records import SmallArray, StateOrigin, ledger_root

FORMAT = 1
_KIND = "murmurec snapshot"
_META, _MODEL, _LEDGER, _ARRAY = "meta.json", "model.", "ledger.", ".npy"
_MOST_META_BYTES = 1 << 20
Arrays = dict[str, NDArray[Any]]


class Meta(msgspec.Struct, frozen=True):
    """The description of a snapshot; `settings` are those that `design` is the digest of, and
    `digest` covers every field that decides the state; `about` is for people."""

    kind: str
    format: int
    murmurec: str
    design: str
    settings: dict[str, str]
    cut: int
    end_offsets: tuple[int, ...] = msgspec.field(name="ends")
    origin: StateOrigin = msgspec.field(name="base")
    model: str
    ledger: str
    digest: str = ""
    about: dict[str, str] = {}

    @property
    def fingerprint(self) -> str:
        """The digest of what the snapshot holds, 32 hex."""
        stated = (
            self.design,
            self.cut,
            self.end_offsets,
            self.origin.digest,
            self.model,
            self.ledger,
        )
        return blake2b(msgspec.msgpack.encode(stated), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class SnapshotFile:
    """A snapshot that was read and is whole."""

    path: Path
    meta: Meta
    model: Arrays = field(repr=False)
    ledger: Arrays = field(repr=False)

    @property
    def digest(self) -> str:
        """What a state that starts from this file has as the `snapshot` of its origin."""
        return self.meta.digest

    def check(self, design: StateSpec) -> None:
        """Refuse a design other than that of the snapshot, naming the settings that differ."""
        if design.digest == self.meta.design:
            return
        there, here = self.meta.settings, design.settings
        odd = [
            f"{name} is {there.get(name, 'unknown')} there and {here.get(name, 'unknown')} here"
            for name in sorted(there.keys() | here.keys())
            if there.get(name) != here.get(name)
        ]
        raise UserError(
            f"{self.path}: the snapshot was made with another design ({'; '.join(odd)}): use its "
            "settings, or a snapshot of this design"
        )

    def load(self, replica: Replica) -> None:
        """Make the state that of the snapshot, its origin and its ledger included."""
        self.check(replica.spec)
        meta = self.meta
        self._fitting(
            replica.load, self.model, self.ledger, meta.cut, meta.end_offsets, meta.origin
        )

    def adopt(self, replica: Replica, origin: StateOrigin) -> None:
        """Start from the model of the snapshot at `origin`, which must name it as its snapshot."""
        self.check(replica.spec)
        if origin.snapshot != self.digest:
            raise UserError(
                f"{self.path}: it holds {self.digest}, and the state began from {origin.snapshot}: "
                "give the snapshot that it began from"
            )
        self._fitting(replica.adopt, self.model, self.ledger, origin)

    def _fitting(self, take: Any, *arguments: Any) -> None:
        try:
            take(*arguments)
        except ValueError as error:
            raise UserError(f"{self.path}: {error}") from None


def write(path: Path, replica: Replica, about: Mapping[str, str] | None = None) -> Meta:
    """Write the state of a replica, which stands at a cut and is at rest; return its description
    as.

    The file appears whole or not at all, for its owner alone to read; raises `UserError` where it
    cannot be written or something stands there that is no file.
    """
    if path.exists() and not path.is_file():
        # A rename would put a file in the place of a device or a pipe.
        raise UserError(f"{path}: is no regular file; choose another place")
    design, model = replica.spec, replica.model_arrays()
    meta = Meta(
        _KIND, FORMAT, __version__, design.digest, design.settings,
        replica.cut, replica.end_offsets, replica.origin,
        replica.model_digest(), replica.ledger_digest(),
    )  # fmt: skip
    meta = msgspec.structs.replace(meta, digest=meta.fingerprint, about=dict(about or {}))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            _write(file, meta, model, replica.ledger.arrays())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        size = sum(array.nbytes for array in model.values())
        why = f"the disk is full, and {size:,} bytes are needed" if _full(error) else error.strerror
        raise UserError(
            f"{path}: the snapshot was not written: {why}; choose another place"
        ) from None
    return meta


def _full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write(file: Any, meta: Meta, model: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # First, so that a reader finds out what it is before it has read much.
        archive.writestr(zipfile.ZipInfo(_META), msgspec.json.encode(meta))
        for prefix, arrays in ((_MODEL, model), (_LEDGER, ledger)):
            for name in sorted(arrays):
                member = zipfile.ZipInfo(f"{prefix}{name}{_ARRAY}")
                with archive.open(member, "w", force_zip64=True) as out:
                    np.lib.format.write_array(out, arrays[name], allow_pickle=False)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read(path: Path, design: StateSpec | None = None) -> SnapshotFile:
    """Return a snapshot whose digests are right; raises `UserError` for any other file, and for one
    of another design if one is given."""
    try:
        with zipfile.ZipFile(path) as archive:
            meta = _meta(path, archive)
            arrays = {
                member.filename: _array(path, archive, member)
                for member in archive.infolist()
                if member.filename != _META
            }
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path}: it cannot be read: {error.strerror}; give a snapshot") from None
    except Exception as error:  # noqa: BLE001 - a damaged file makes zipfile and numpy raise anything
        raise _damaged(path, str(error)) from None
    found = SnapshotFile(path, meta, _of(arrays, _MODEL), _of(arrays, _LEDGER))
    _verify(found)
    if design is not None:
        found.check(design)
    return found


def _meta(path: Path, archive: zipfile.ZipFile) -> Meta:
    if _META not in archive.namelist() or archive.getinfo(_META).file_size > _MOST_META_BYTES:
        raise UserError(f"{path}: it is not a snapshot: make one with murmurec state export")
    stated = _bytes(archive, archive.getinfo(_META))
    try:
        head = msgspec.json.decode(stated, type=dict[str, Any])
        if head.get("kind") != _KIND or not isinstance(head.get("format"), int):
            raise UserError(f"{path}: it is not a snapshot: make one with murmurec state export")
        if head["format"] > FORMAT:
            raise UserError(
                f"{path}: the snapshot has format {head['format']}, and this version reads up to "
                f"{FORMAT}: install murmurec {head.get('murmurec', 'of a newer version')} or later"
            )
        return msgspec.json.decode(stated, type=Meta)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None


def _bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes, which are as many as the file holds: a small file stays small."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{member.filename} is compressed")
    return archive.read(member)


def _array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array; the length is compared with the header before anything is made of it."""
    data = io.BytesIO(_bytes(archive, member))
    if np.lib.format.read_magic(data) != (1, 0):
        raise ValueError(f"{member.filename} is not an array of format 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    if dtype.hasobject:
        raise UserError(
            f"{path}: {member.filename} holds objects, which would run code when read: it is not a "
            "snapshot; make one with murmurec state export"
        )
    body = data.getbuffer()[data.tell() :]
    if fortran or min(shape, default=0) < 0 or len(body) != prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename} is not as long as it says")
    return np.frombuffer(body, dtype).reshape(shape)


def _of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix).removesuffix(_ARRAY): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _verify(found: SnapshotFile) -> None:
    meta = found.meta
    small = (
        SmallArray(name, array.dtype.str, array.shape, array.tobytes())
        for name, array in found.ledger.items()
    )
    for what, stated, holds in (
        ("model", meta.model, digest(meta.design, found.model)),
        ("ledger", meta.ledger, ledger_root(meta.design, tuple(small))),
        ("design", meta.design, settings_digest(meta.settings)),
        ("snapshot", meta.digest, meta.fingerprint),
    ):
        if stated != holds:
            raise _damaged(found.path, f"the digest of the {what} is {holds} and not {stated}")


def _damaged(path: Path, why: str) -> UserError:
    if zipfile.is_zipfile(path) or _begins_as_zip(path):
        return UserError(f"{path}: the snapshot is damaged or cut short ({why}): use another copy")
    return UserError(f"{path}: it is not a snapshot: make one with murmurec state export")


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
