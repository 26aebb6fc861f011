"""`murmurec state show`: what the state topic holds, generation by generation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
import typer

from stream_app.checkpoints import reader as changelog
from stream_app.operations.session import Session, bar
from stream_app.wire import WireError
from stream_app.wire.state_records import (
    Claim,
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    decode_manifest,
    decode_page,
    decode_state_key,
)


@dataclass
class Generation:
    """What one owner has written, as far as it is still there."""

    generation: int
    worker: str = ""
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    pages: int = 0
    bytes: int = 0


@dataclass
class Inventory:
    """The whole topic: `records` were read, `live` are the newest of each key; `foreign` are of no
    known kind, `damaged` cannot be read."""

    records: int = 0
    record_bytes: int = 0
    live: int = 0
    live_bytes: int = 0
    foreign: int = 0
    damaged: int = 0
    generations: list[Generation] = field(default_factory=list)


def show(session: Session, as_json: bool) -> None:
    """Print what the topic holds."""
    found = Inventory()
    live: dict[bytes | None, tuple[int, bytes]] = {}

    def take(offset: int, key: bytes | None, value: bytes | None) -> None:
        found.records += 1
        found.record_bytes += len(key or b"") + len(value or b"")
        live.pop(key, None)
        if value is not None:
            live[key] = offset, value

    with bar("reading the state topic") as progress:
        changelog.read(session.servers, session.settings.kafka, session.names, take, progress)
    inventory(found, live)
    _print(found, as_json)


def inventory(found: Inventory, live: dict[bytes | None, tuple[int, bytes]]) -> None:
    """Sort the newest record of each key (offset and value) into generations."""
    generations: dict[int, Generation] = {}

    def of(number: int) -> Generation:
        return generations.setdefault(number, Generation(number))

    for key, (offset, value) in live.items():
        found.live += 1
        found.live_bytes += len(key or b"") + len(value)
        try:
            match decode_state_key(key):
                case PageKey() as page:
                    decode_page(value)
                    of(page.generation).pages += 1
                    of(page.generation).bytes += len(value)
                case ManifestKey() as name:
                    manifest = decode_manifest(value)
                    of(name.generation).checkpoints.append(_told(manifest))
                    of(name.generation).bytes += len(value)
                case ClaimKey():
                    of(offset).worker = msgspec.msgpack.decode(value[1:], type=Claim).worker
        except (WireError, msgspec.MsgspecError):
            found.damaged += _known(key)
            found.foreign += not _known(key)
    found.generations = [generations[number] for number in sorted(generations)]
    for generation in found.generations:
        generation.checkpoints.sort(key=lambda told: int(told["number"]))


def _known(key: bytes | None) -> bool:
    try:
        decode_state_key(key)
    except WireError:
        return False
    return True


def _told(manifest: Manifest) -> dict[str, Any]:
    return {
        "number": manifest.number,
        "cut": manifest.cut,
        "positions": list(manifest.end_offsets),
        "model_digest": manifest.model,
        "ledger_digest": manifest.ledger,
        "design_digest": manifest.design,
        "base": msgspec.to_builtins(manifest.origin),
    }


def _print(found: Inventory, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(
        f"{found.records:,} records ({found.record_bytes / 2**20:.1f} MiB), newest of each key: "
        f"{found.live:,} ({found.live_bytes / 2**20:.1f} MiB); "
        f"foreign {found.foreign}, damaged {found.damaged}"
    )
    for one in found.generations:
        typer.echo(
            f"generation {one.generation}: {one.pages:,} pages, {one.bytes / 2**20:.1f} MiB, "
            f"written by {one.worker or 'somebody whose claim is gone'}"
        )
        for told in one.checkpoints:
            typer.echo(
                f"  checkpoint {told['number']} at cut {told['cut']}, positions "
                f"{told['positions']}, model {told['model_digest']}"
            )
    if not found.generations:
        typer.echo("no checkpoint yet")
