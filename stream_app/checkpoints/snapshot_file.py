"""A snapshot: the complete state in one file, to keep, compare or start from.

    model.<name>.npy, ledger.<name>.npy    arrays in numpy's format
    meta.json                              format, design, cut, origin, and digests of the arrays

The file is an uncompressed zip that `numpy.load(path, allow_pickle=False)` also reads; equal states
give equal files. `read` returns a state whose digests are verified, or raises `UserError` for a
file that is damaged, holds NaN or infinity, is larger than the memory here, of a newer format or,
if a design is given, of another one; it never unpickles. A snapshot holds the server's data: sums
of released reports, and pseudonyms.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app import __version__
from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.state.digests import digest
from stream_app.state.exchange.division import adopt_share, undivided
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec, differing, settings_digest
from stream_app.wire.state_records import SmallArray, StateOrigin, ledger_root

FORMAT = 1
_KIND = "murmurec snapshot"
_META, _MODEL, _LEDGER, _ARRAY = "meta.json", "model.", "ledger.", ".npy"
_MOST_META_BYTES = 1 << 20
Arrays = dict[str, NDArray[Any]]


class Meta(msgspec.Struct, frozen=True):
    """The description of a snapshot; `design` is the digest of `settings`, `digest` covers every
    field that determines the state, and `about` is free text for the reader."""

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
        """The digest of the snapshot's contents, 32 hex digits."""
        covered = (
            self.design,
            self.cut,
            self.end_offsets,
            self.origin.digest,
            self.model,
            self.ledger,
        )
        return blake2b(msgspec.msgpack.encode(covered), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class SnapshotFile:
    """A snapshot that was read and verified."""

    path: Path
    meta: Meta
    model: Arrays = field(repr=False)
    ledger: Arrays = field(repr=False)

    @property
    def digest(self) -> str:
        """The digest that identifies this file as the `snapshot` of a state's origin."""
        return self.meta.digest

    def is_divided_for(self, design: StateSpec) -> bool:
        """Return whether a shard begins with its share of this snapshot, of all devices."""
        return design.shards > 1 and "shards" not in self.meta.settings

    def check(self, design: StateSpec) -> None:
        """Refuse a design other than the snapshot's; the error names the settings that differ. For
        a shard that of an undivided state will do."""
        if self.is_divided_for(design):
            design = undivided(design)
        if design.digest == self.meta.design:
            return
        apart = {"revision": ""}  # no array depends on it
        found = differing(self.meta.settings | apart, design.settings | apart)
        if not found:
            return
        fix = (
            "install the release that wrote it"
            if "state_format" in found
            else "use its settings, or convert it with murmurec state migrate"
        )
        raise UserError(f"{self.path}: the snapshot was made with another design ({found}): {fix}")

    def adopt(self, replica: Replica, origin: StateOrigin) -> None:
        """Start from the model of the snapshot at `origin`, which must name it as its snapshot."""
        self.check(replica.spec)
        if origin.snapshot != self.digest:
            raise UserError(
                f"{self.path}: this snapshot has digest {self.digest}, and the state began from "
                f"{origin.snapshot}: give that snapshot"
            )
        adopt = replica.adopt
        if self.is_divided_for(replica.spec):
            adopt = partial(adopt_share, replica)
        try:
            adopt(self.model, self.ledger, origin)
        except ValueError as error:
            raise UserError(f"{self.path}: {error}") from None


def described(replica: Replica, about: Mapping[str, str] | None = None) -> Meta:
    """Return the description of a replica that is at a cut, with `about` in it."""
    design = replica.spec
    meta = Meta(
        _KIND, FORMAT, __version__, design.digest, design.settings,
        replica.cut, replica.end_offsets, replica.origin,
        replica.model_digest(), replica.ledger_digest(),
    )  # fmt: skip
    return msgspec.structs.replace(meta, digest=meta.fingerprint, about=dict(about or {}))


def write(
    path: Path,
    replica: Replica,
    about: Mapping[str, str] | None = None,
    *,
    meta: Meta | None = None,
) -> Meta:
    """Write the state of a replica that is at a cut and not being applied to; return its
    description, `meta` where it is known.

    The file appears complete or not at all, with mode 0600; raises `UserError` if it cannot be
    written or the path exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        # The rename below would replace a device node or a pipe.
        raise UserError(f"{path}: not a regular file; choose another path")
    meta, model = meta or described(replica, about), replica.model_arrays()
    try:
        durable_file.replace(path, lambda file: _write(file, meta, model, replica.ledger.arrays()))
    except OSError as error:
        size = sum(array.nbytes for array in model.values())
        full = f"the disk is full, and {size:,} bytes are needed"
        reason = full if _full(error) else error.strerror
        raise UserError(
            f"{path}: the snapshot was not written: {reason}; choose another path"
        ) from None
    return meta


def _full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write(file: Any, meta: Meta, model: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # Written first, so that a reader recognises the file before it reads the arrays.
        archive.writestr(zipfile.ZipInfo(_META), msgspec.json.encode(meta))
        for prefix, arrays in ((_MODEL, model), (_LEDGER, ledger)):
            for name in sorted(arrays):
                member = zipfile.ZipInfo(f"{prefix}{name}{_ARRAY}")
                with archive.open(member, "w", force_zip64=True) as out:
                    np.lib.format.write_array(out, arrays[name], allow_pickle=False)


def read(path: Path, design: StateSpec | None = None) -> SnapshotFile:
    """Return a verified snapshot; raises `UserError` for any other file, and for a snapshot of
    another design if `design` is given."""
    try:
        _check_size(path)
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise ValueError("its members overlap")
            meta = _meta(path, archive)
            arrays = {
                member.filename: _array(path, archive, member)
                for member in archive.infolist()
                if member.filename != _META
            }
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; give a snapshot") from None
    except Exception as error:  # noqa: BLE001 - a damaged file makes zipfile and numpy raise anything
        raise _damaged(path, str(error)) from None
    found = SnapshotFile(
        path, meta, _without_prefix(arrays, _MODEL), _without_prefix(arrays, _LEDGER)
    )
    _verify(found)
    if design is not None:
        found.check(design)
    return found


def _check_size(path: Path) -> None:
    """Refuse what is no file, and a file that does not fit into the memory, before it is opened."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: not a regular file; give a snapshot")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if status.st_size > memory:
        raise UserError(
            f"{path}: {status.st_size:,} bytes, more than the {memory:,} bytes of memory here: a "
            "snapshot is read whole; use a machine with more memory"
        )


def _meta(path: Path, archive: zipfile.ZipFile) -> Meta:
    if _META not in archive.namelist() or archive.getinfo(_META).file_size > _MOST_META_BYTES:
        raise UserError(f"{path}: not a snapshot; make one with murmurec state export")
    encoded = _bytes(archive, archive.getinfo(_META))
    try:
        head = msgspec.json.decode(encoded, type=dict[str, Any])
        if head.get("kind") != _KIND or not isinstance(head.get("format"), int):
            raise UserError(f"{path}: not a snapshot; make one with murmurec state export")
        if head["format"] > FORMAT:
            raise UserError(
                f"{path}: the snapshot has format {head['format']}, and this version reads up to "
                f"{FORMAT}: install murmurec {head.get('murmurec', 'of a newer version')} or later"
            )
        return msgspec.json.decode(encoded, type=Meta)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None


def _bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes; refuses compression, so a small file cannot expand."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{member.filename} is compressed")
    return archive.read(member)


def _array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array; its length is compared with its header before it is created."""
    data = io.BytesIO(_bytes(archive, member))
    if np.lib.format.read_magic(data) != (1, 0):
        raise ValueError(f"{member.filename} is not an array of format 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    if dtype.hasobject:
        raise UserError(
            f"{path}: {member.filename} holds pickled objects, which run code when read: it is not "
            "a snapshot; make one with murmurec state export"
        )
    body = data.getbuffer()[data.tell() :]
    if fortran or min(shape, default=0) < 0 or len(body) != prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename} does not have the length that its header gives")
    return np.frombuffer(body, dtype).reshape(shape)


def _without_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
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
    for part, recorded, computed in (
        ("model", meta.model, digest(meta.design, found.model)),
        ("ledger", meta.ledger, ledger_root(meta.design, tuple(small))),
        ("design", meta.design, settings_digest(meta.settings)),
        ("snapshot", meta.digest, meta.fingerprint),
    ):
        if recorded != computed:
            raise _damaged(found.path, f"the digest of the {part} is {computed} and not {recorded}")
    for name, array in found.model.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = int(np.argmin(np.isfinite(array).reshape(-1)))
            raise UserError(
                f"{found.path}: {_MODEL}{name} holds {array.flat[place]} at element {place}: a "
                "model with it predicts nothing; use another snapshot"
            )


def _damaged(path: Path, reason: str) -> UserError:
    if zipfile.is_zipfile(path) or _begins_as_zip(path):
        return UserError(
            f"{path}: the snapshot is damaged or truncated ({reason}): use another copy"
        )
    return UserError(f"{path}: not a snapshot; make one with murmurec state export")


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
