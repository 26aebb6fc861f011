"""The records of the state topic: pages, manifests and claims, distinguished by the first byte of
the key.

    page       b"P" array:u16 page:u32 slot:u8 generation:u64     format:u8 number:u64 bytes
    manifest   b"M" slot:u8 generation:u64                        format:u8 blake2b-128 seal body
    claim      b"C" owner:16 bytes                                format:u8 seal body

All numbers are big-endian. A generation (a fencing token) is the offset of its claim in the topic,
so no two owners ever share one and a later claim has a greater one. The topic is compacted: the
newest record of each key counts, and a record without a value (a tombstone) removes the key.

A page holds `PAGE_BYTES` bytes of one array of the state; the last page of an array may hold fewer.
Arrays are numbered in the order of their names. A manifest names for every page the slot of its
newest record, or `UNCHANGED` if the page is still as in the empty state.

The body of a manifest or a claim is MessagePack. The digest in front of a manifest covers its
format and its seal too, and every later format keeps these three at the same place: a damaged
record is therefore distinguished from a record of a newer worker, and that from a forged one. The
seal (16 bytes, see `wire.authenticity.seal`) covers the body, and with it the digest of every page:
a writer without the deployment's secret can delete a checkpoint but cannot make one.

A manifest whose log may change the design (`DESIGN_CONTRACT`) has format 3, with the body of format
2: a worker of an earlier release then asks for the newer one, and not for other settings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import Annotated, Any, NamedTuple

import msgspec

from stream_app.wire.authenticity.seal import OPEN, SEAL_BYTES, Seal
from stream_app.wire.authenticity.tails import Tail
from stream_app.wire.limits import DESIGN_CONTRACT
from stream_app.wire.reasons import Reason, WireError

CHECKPOINT_FORMAT = 3
_FIRST_FORMAT = 2  # of pages, claims and the manifests before there were designs in the log
PAGE_BYTES = 64 * 1024
UNCHANGED = 255
DIGEST_BYTES = 16

_ZEROS = bytes(PAGE_BYTES)
_ZEROS_DIGEST = sha256(_ZEROS).digest()[:DIGEST_BYTES]

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
    """A manifest of a generation; successive manifests alternate between slots 0 and 1."""

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
    """The origin of a state: together with the later log it decides every byte of the state.

    The state reads the log after `cut`, from `end_offsets` on. `snapshot` is the digest of the
    adopted snapshot (empty: none), `truncated` is whether earlier records are missing, `excluded`
    lists the pseudonyms (hex, sorted) whose records are skipped as if never written. `contract` is
    the version of the event format in force after the cut.
    """

    cut: int
    end_offsets: tuple[int, ...] = msgspec.field(name="ends")
    snapshot: str = msgspec.field(default="", name="origin")
    truncated: bool = msgspec.field(default=False, name="gap")
    excluded: tuple[str, ...] = msgspec.field(default=(), name="without")
    contract: int = 1

    @property
    def digest(self) -> str:
        """The fingerprint of this origin, 32 hex; of contract 1 as before there were contracts."""
        fields = msgspec.to_builtins(self)
        if self.contract == 1:
            del fields["contract"]
        return blake2b(msgspec.msgpack.encode(fields), digest_size=DIGEST_BYTES).hexdigest()


class ArrayPages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array of the state: name, type, shape, and the slot (uint8) and digest of each page."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    slots: bytes
    digests: bytes


class SmallArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array stored whole in the manifest (the ledger), little-endian."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One durable checkpoint: the state at `cut`, with the digest of every page.

    `cut_offset` is the next offset to read in the cut log; `topic_id` identifies the rating topic
    and differs for a recreated topic of the same name. `model` and `ledger` are the digests of the
    state at this cut. `tails` holds for each rating partition the last record below `end_offsets`
    (None: not known), and after those the record of the cut itself: by them a start recognises a
    log that lost its end.
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
    tails: tuple[Tail | None, ...] = ()

    @property
    def contract(self) -> int:
        """The version of the event format in force after the cut."""
        held = next((a.data for a in self.ledger_arrays if a.name == "contract"), b"")
        return int.from_bytes(held[:8], "little") or 1


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the claiming worker, for operators only."""

    worker: Annotated[str, msgspec.Meta(max_length=200)] = ""


StateKey = PageKey | ManifestKey | ClaimKey

_manifest_decoder = msgspec.msgpack.Decoder(Manifest)
_claim_decoder = msgspec.msgpack.Decoder(Claim)
_SEALED_MANIFEST, _SEALED_CLAIM = b"manifest", b"claim"


def is_manifest(key: bytes) -> bool:
    """Return whether a record key is that of a manifest."""
    return key[:1] == b"M"


def decode_state_key(key: bytes | None) -> StateKey:
    """Return the page, manifest or claim of a record key; raises `WireError`."""
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
    """Return a page's value: the number of its checkpoint, and its bytes."""
    return _PAGE_HEAD.pack(_FIRST_FORMAT, number) + bytes(data)


def decode_page(value: bytes) -> tuple[int, memoryview]:
    """Return the number of a page's checkpoint, and its bytes; raises `WireError`."""
    if len(value) < _PAGE_HEAD.size or len(value) > _PAGE_HEAD.size + PAGE_BYTES:
        raise WireError(Reason.MALFORMED)
    version, number = _PAGE_HEAD.unpack_from(value)
    if version != _FIRST_FORMAT:
        raise WireError(Reason.UNKNOWN_VERSION)
    return number, memoryview(value)[_PAGE_HEAD.size :]


def page_digest(data: bytes | memoryview) -> bytes:
    """Return the first 16 bytes of the SHA-256 of a page's bytes.

    Every changed page is hashed, over a thousand per second: with SHA instructions of the processor
    this takes half the time of blake2b (measured). Tables that were made large are mostly zeros.
    """
    if data[:8] == _ZEROS[:8] and bytes(data) == _ZEROS:
        return _ZEROS_DIGEST
    return sha256(data).digest()[:DIGEST_BYTES]


def _own_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class ArrayDigests(NamedTuple):
    """An array as its name, type, shape and the digests of its pages, concatenated."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digests: bytes


def model_root(design: str, arrays: Iterable[Any]) -> str:
    """Return the digest of a model, 32 hex: blake2b-128 of the design's digest and, for each array
    (as `ArrayPages` or `ArrayDigests`) in the order of names, `name:dtype:shape;` and its page
    digests."""
    return _root(design, ((a.name, a.dtype, a.shape, a.digests) for a in arrays))


def ledger_root(design: str, arrays: Iterable[SmallArray]) -> str:
    """Return the digest of a ledger, 32 hex: as `model_root`, over the bytes of the arrays."""
    return _root(design, ((a.name, a.dtype, a.shape, a.data) for a in arrays))


def _root(design: str, arrays: Iterable[tuple[str, str, tuple[int, ...], bytes]]) -> str:
    root = blake2b(design.encode(), digest_size=DIGEST_BYTES)
    for name, dtype, shape, content in sorted(arrays, key=lambda array: array[0]):
        root.update(f"{name}:{dtype}:{shape};".encode() + content)
    return root.hexdigest()


def encode_manifest(manifest: Manifest, seal: Seal = OPEN) -> bytes:
    """Return a manifest's value, with its own digest and its seal in front."""
    body = msgspec.msgpack.encode(manifest)
    number = _FIRST_FORMAT if manifest.contract < DESIGN_CONTRACT else CHECKPOINT_FORMAT
    sealed = seal.tag(_SEALED_MANIFEST, _covered(number, body)) + body
    version = bytes([number])
    return version + _own_digest(version + sealed) + sealed


def decode_manifest(value: bytes, seal: Seal = OPEN) -> Manifest:
    """Return the manifest; raises `WireError` if it is damaged or of another format, and
    `ForeignSeal` if it is whole but not sealed with the secret of `seal`: of any format where there
    is a secret, since a forger can write every format."""
    digest, sealed = value[1 : 1 + DIGEST_BYTES], value[1 + DIGEST_BYTES :]
    if not sealed or _own_digest(value[:1] + sealed) != digest:
        raise WireError(Reason.MALFORMED)
    tag, body = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
    known = value[0] in (_FIRST_FORMAT, CHECKPOINT_FORMAT)
    if known or seal.keyed:
        seal.check(_SEALED_MANIFEST, _covered(value[0], body), tag)
    if not known:
        raise WireError(Reason.UNKNOWN_VERSION)
    try:
        return _manifest_decoder.decode(body)
    except msgspec.MsgspecError:
        raise WireError(Reason.MALFORMED) from None


def _covered(version: int, body: bytes) -> bytes:
    """Return what the seal of a manifest covers: the format, too, in every format after 2, or a
    genuine manifest under another number would be one of a newer worker."""
    return body if version == 2 else bytes([version]) + body


def encode_claim(key: ClaimKey, claim: Claim, seal: Seal = OPEN) -> bytes:
    """Return a claim's value; its seal covers the key too."""
    body = msgspec.msgpack.encode(claim)
    return bytes([_FIRST_FORMAT]) + seal.tag(_SEALED_CLAIM, key.owner + body) + body


def decode_claim(key: ClaimKey, value: bytes, seal: Seal = OPEN) -> Claim:
    """Return the claim; raises `WireError`, and `ForeignSeal` if its seal is not that of `seal`."""
    tag, body = value[1 : 1 + SEAL_BYTES], value[1 + SEAL_BYTES :]
    if not body:
        raise WireError(Reason.MALFORMED)
    if value[0] != _FIRST_FORMAT:
        raise WireError(Reason.UNKNOWN_VERSION)
    seal.check(_SEALED_CLAIM, key.owner + body, tag)
    try:
        return _claim_decoder.decode(body)
    except msgspec.MsgspecError:
        raise WireError(Reason.MALFORMED) from None
