"""The records of the state topic: pages, manifests and claims, distinguished by the first byte of
the key.

    page       b"P" array:u16 page:u32 slot:u8 generation:u64     format:u8 number:u64 bytes
    manifest   b"M" slot:u8 generation:u64                        format:u8 blake2b-128 MessagePack
    claim      b"C" owner:16 bytes                                format:u8 MessagePack

All numbers are big-endian. A generation (a fencing token) is the offset of its claim in the topic,
so no two owners ever share one and a later claim has a greater one. The topic is compacted: the
newest record of each key counts, and a record without a value (a tombstone) removes the key.

A page holds `PAGE_BYTES` bytes of one array of the state, the last one of an array fewer. Arrays
are numbered in the order of their names. A manifest names for every page the slot of its newest
record, `UNCHANGED` where it is as in a state that has seen nothing.

The digest in front of a manifest covers its format too, and every later format keeps format and
digest where they are: so a damaged record is distinguished from one that a newer worker wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import Annotated, Protocol

import msgspec

from stream_app.wire.reasons import Reason, WireError

CHECKPOINT_FORMAT = 1
PAGE_BYTES = 64 * 1024
UNCHANGED = 255
DIGEST_BYTES = 16

_PAGE_KEY = struct.Struct(">cHIBQ")
_MANIFEST_KEY = struct.Struct(">cBQ")
_CLAIM_KEY = struct.Struct(">c16s")
_PAGE_HEAD = struct.Struct(">BQ")


class PageKey(msgspec.Struct, frozen=True, order=True):
    """The place of a page: array, number in the array, slot (0 or 1), generation."""

    array: int
    page: int
    slot: int
    generation: int

    def encode(self) -> bytes:
        """Return the record key."""
        return _PAGE_KEY.pack(b"P", self.array, self.page, self.slot, self.generation)


class ManifestKey(msgspec.Struct, frozen=True, order=True):
    """A manifest of a generation; two of them take turns."""

    slot: int
    generation: int

    def encode(self) -> bytes:
        """Return the record key."""
        return _MANIFEST_KEY.pack(b"M", self.slot, self.generation)


class ClaimKey(msgspec.Struct, frozen=True):
    """A claim of the right to write; `owner` is drawn for each claim."""

    owner: bytes

    def encode(self) -> bytes:
        """Return the record key."""
        return _CLAIM_KEY.pack(b"C", self.owner)


class StateOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a state starts from: with the log after it, this decides every byte.

    The log is taken up after `cut`, at `end_offsets`. `snapshot` is the digest of the snapshot that
    was adopted (empty: none), `truncated` whether earlier records were given up, `excluded` the
    pseudonyms (hex, sorted) whose records are skipped as if they had never been written.
    """

    cut: int
    end_offsets: tuple[int, ...] = msgspec.field(name="ends")
    snapshot: str = msgspec.field(default="", name="origin")
    truncated: bool = msgspec.field(default=False, name="gap")
    excluded: tuple[str, ...] = msgspec.field(default=(), name="without")

    @property
    def digest(self) -> str:
        """The fingerprint of this origin, 32 hex."""
        return blake2b(msgspec.msgpack.encode(self), digest_size=DIGEST_BYTES).hexdigest()


class ArrayPages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array of the state: what it is, and of each page the slot (uint8) and the digest."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    slots: bytes
    digests: bytes


class SmallArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array that is whole in the manifest (the ledger), little-endian."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One durable checkpoint: the state at `cut`, of which every page is named by its digest.

    `cut_offset` is the offset in the cut log from which to read on; `topic_id` the identity of the
    rating topic, which a recreated topic of the same name does not have. `model` and `ledger` are
    the digests that a replica shows at this cut.
    """

    generation: int
    number: int
    design: str
    topic_id: str
    cut: int
    end_offsets: tuple[int, ...] = msgspec.field(name="ends")
    cut_offset: int
    origin: StateOrigin = msgspec.field(name="base")
    model: str
    ledger: str
    arrays: tuple[ArrayPages, ...]
    ledger_arrays: tuple[SmallArray, ...]


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an owner states about itself, for people: which worker it is."""

    worker: Annotated[str, msgspec.Meta(max_length=200)] = ""


StateKey = PageKey | ManifestKey | ClaimKey

_manifest_decoder = msgspec.msgpack.Decoder(Manifest)


def decode_state_key(key: bytes | None) -> StateKey:
    """Return what a record key names; raises `WireError`."""
    try:
        match key[:1] if key else b"":
            case b"P":
                _, array, page, slot, generation = _PAGE_KEY.unpack(key)  # type: ignore[arg-type]
                if slot < 2:
                    return PageKey(array, page, slot, generation)
            case b"M":
                _, slot, generation = _MANIFEST_KEY.unpack(key)  # type: ignore[arg-type]
                if slot < 2:
                    return ManifestKey(slot, generation)
            case b"C":
                return ClaimKey(_CLAIM_KEY.unpack(key)[1])  # type: ignore[arg-type]
    except struct.error:
        pass
    raise WireError(Reason.MALFORMED)


def encode_page(number: int, data: bytes | memoryview) -> bytes:
    """Return a page's value: the checkpoint that it was written for, and its bytes."""
    return _PAGE_HEAD.pack(CHECKPOINT_FORMAT, number) + bytes(data)


def decode_page(value: bytes) -> tuple[int, memoryview]:
    """Return the checkpoint that a page was written for, and its bytes; raises `WireError`."""
    if len(value) < _PAGE_HEAD.size or len(value) > _PAGE_HEAD.size + PAGE_BYTES:
        raise WireError(Reason.MALFORMED)
    version, number = _PAGE_HEAD.unpack_from(value)
    if version != CHECKPOINT_FORMAT:
        raise WireError(Reason.UNKNOWN_VERSION)
    return number, memoryview(value)[_PAGE_HEAD.size :]


def page_digest(data: bytes | memoryview) -> bytes:
    """Return the first 16 bytes of the SHA-256 of a page's bytes.

    Every page that changes is hashed, a thousand a second and more: with the processor's own
    instructions this takes half the time of blake2b (measured).
    """
    return sha256(data).digest()[:DIGEST_BYTES]


def _own_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class Paged(Protocol):
    """What a root is taken over: an array and the digests of its pages, one after the other."""

    @property
    def name(self) -> str:
        """The name of the array."""

    @property
    def dtype(self) -> str:
        """Its type as numpy writes it, such as `<f4`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def digests(self) -> bytes:
        """`DIGEST_BYTES` bytes a page."""


def model_root(design: str, arrays: Iterable[Paged]) -> str:
    """Return the digest of a model, 32 hex: blake2b-128 of the design's digest and, for each array
    in the order of names, `name:dtype:shape;` and its page digests."""
    root = blake2b(design.encode(), digest_size=DIGEST_BYTES)
    for array in sorted(arrays, key=_name):
        root.update(f"{array.name}:{array.dtype}:{array.shape};".encode() + array.digests)
    return root.hexdigest()


def ledger_root(design: str, arrays: Iterable[SmallArray]) -> str:
    """Return the digest of a ledger, 32 hex: as `model_root`, over the bytes of the arrays."""
    root = blake2b(design.encode(), digest_size=DIGEST_BYTES)
    for array in sorted(arrays, key=_name):
        root.update(f"{array.name}:{array.dtype}:{array.shape};".encode() + array.data)
    return root.hexdigest()


def _name(array: Paged | SmallArray) -> str:
    return array.name


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest's value, with its own digest in front."""
    body = msgspec.msgpack.encode(manifest)
    version = bytes([CHECKPOINT_FORMAT])
    return version + _own_digest(version + body) + body


def decode_manifest(value: bytes) -> Manifest:
    """Return the manifest; raises `WireError`: damaged, or whole and of another format."""
    digest, body = value[1 : 1 + DIGEST_BYTES], value[1 + DIGEST_BYTES :]
    if not body or _own_digest(value[:1] + body) != digest:
        raise WireError(Reason.MALFORMED)
    if value[0] != CHECKPOINT_FORMAT:
        raise WireError(Reason.UNKNOWN_VERSION)
    try:
        return _manifest_decoder.decode(body)
    except msgspec.MsgspecError:
        raise WireError(Reason.MALFORMED) from None


def encode_claim(claim: Claim) -> bytes:
    """Return a claim's value."""
    return bytes([CHECKPOINT_FORMAT]) + msgspec.msgpack.encode(claim)
