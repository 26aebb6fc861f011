"""Lists the contents of the state topic by generation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.operations.session import Session
from stream_app.wire import WireError
from stream_app.wire.authenticity.seal import ANY
from stream_app.wire.state_records import (
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    decode_claim,
    decode_manifest,
    decode_page,
    decode_state_key,
)


@dataclass
class Generation:
    """The records of one writer that the topic holds."""

    generation: int
    worker: str = ""
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    pages: int = 0
    bytes: int = 0


@dataclass
class Inventory:
    """The complete topic: the `records` read, the `live` ones (newest of a key) among them, of
    which `foreign` have an invalid key and `damaged` an undecodable value."""

    records: int = 0
    record_bytes: int = 0
    live: int = 0
    live_bytes: int = 0
    foreign: int = 0
    damaged: int = 0
    generations: list[Generation] = field(default_factory=list)


def read_inventory(session: Session) -> Inventory:
    """Read the state topic and return its inventory."""
    found = Inventory()
    live: dict[bytes | None, tuple[int, bytes]] = {}

    def take(offset: int, key: bytes | None, value: bytes | None) -> None:
        found.records += 1
        found.record_bytes += len(key or b"") + len(value or b"")
        live.pop(key, None)
        if value is not None:
            live[key] = offset, value

    with session.display("reading the state topic") as progress:
        reader.read(session.connection, session.names, take, progress)
    inventory(found, live)
    return found


def inventory(found: Inventory, live: dict[bytes | None, tuple[int, bytes]]) -> None:
    """Group the newest record of each key (offset and value) by generation."""
    generations: dict[int, Generation] = {}

    def generation(number: int) -> Generation:
        return generations.setdefault(number, Generation(number))

    for key, (offset, value) in live.items():
        found.live += 1
        found.live_bytes += len(key or b"") + len(value)
        try:
            match decode_state_key(key):
                case PageKey() as page:
                    decode_page(value)
                    generation(page.generation).pages += 1
                    generation(page.generation).bytes += len(value)
                case ManifestKey() as name:
                    manifest = decode_manifest(value, ANY)
                    generation(name.generation).checkpoints.append(_summary(manifest))
                    generation(name.generation).bytes += len(value)
                case ClaimKey() as claim:
                    generation(offset).worker = decode_claim(claim, value, ANY).worker
        except WireError:
            found.damaged += _known(key)
            found.foreign += not _known(key)
    found.generations = [generations[number] for number in sorted(generations)]
    for each in found.generations:
        each.checkpoints.sort(key=lambda checkpoint: int(checkpoint["number"]))


def _known(key: bytes | None) -> bool:
    try:
        decode_state_key(key)
    except WireError:
        return False
    return True


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "number": manifest.number,
        "cut": manifest.cut,
        "positions": list(manifest.end_offsets),
        "model_digest": manifest.model,
        "ledger_digest": manifest.ledger,
        "design_digest": manifest.design,
        "base": msgspec.to_builtins(manifest.origin),
    }
