"""`murmurec state`: what is refused before anything is read, and how a difference is listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.checkpoints.protocol.writer import Acked, Durable, Freeze, LeaseAcquired, Writer
from stream_app.checkpoints.state_image import StateImage
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.operations.inventory import Inventory, inventory
from stream_app.operations.verify import differences
from stream_app.operations.watching import workers
from stream_app.privacy import registry
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire.state_records import Manifest
from tests.fixtures.http import OK, answering

COMMANDS = ("digest", "digest --from earliest", "verify", "rebuild", "show", "export x.npz")


@pytest.fixture(scope="module")
def design() -> StateSpec:
    """Give a small design."""
    small = {"sketch_bytes": 1 << 16, "scalars_bytes": 1 << 13, "seen_bytes": 1 << 18}
    return StateSpec((registry.parse("rr:5:2"),), factors=8, **small)


def written(replica: Replica) -> tuple[Manifest, dict[bytes, bytes]]:
    """Return the manifest that a writer makes of a replica, and its records."""
    writer, topic = Writer(), {}
    for pages in replica.dirty_pages().values():
        pages[:] = 1  # the tests write to the arrays themselves
    image = StateImage(replica)
    image.freeze(write=True, full=True)
    image.hash()
    manifest = None
    for event in (LeaseAcquired(b"o" * 16, "somewhere"), Freeze(image.frozen("id", 3))):
        outputs = writer.step(event)
        while outputs:
            output = outputs.pop(0)
            if isinstance(output, Durable):
                manifest = output.manifest
                continue
            assert output.value is not None
            topic[output.key] = output.value
            outputs += writer.step(Acked(output.token, 0))
    assert manifest is not None
    return manifest, topic


def largest(replica: Replica) -> NDArray[Any]:
    """Return the largest array of the model."""
    return max(replica.model_arrays().values(), key=lambda array: array.nbytes)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_broker_each_command_explains_how_to_name_one(
    command: str, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["state", *command.split()]) == 1
    assert "no Kafka is configured: give --bootstrap" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:8470", "ftp://x", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match=r"give one such as http://127.0.0.1:8470"):
        workers.ask(url)


NO_STATES = {
    "nothing": b"",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "not ready": b"HTTP/1.0 503 Service Unavailable\r\n\r\n{}",
    "an empty map": OK + b"{}",
    "text": OK + b"hello",
    "no digest": OK + json.dumps({"cut": 1, "positions": [1], "model_digest": 7}).encode(),
}


@pytest.mark.parametrize("reply", NO_STATES.values(), ids=NO_STATES)
def test_what_shows_no_state_is_refused(reply: bytes) -> None:
    with answering(reply) as url, pytest.raises(UserError, match="nothing shows /state at"):
        workers.ask(url)


def test_a_checkpoint_of_a_replica_does_not_differ_from_it(design: StateSpec) -> None:
    replica = Replica(design)
    largest(replica).reshape(-1)[0] = 7
    manifest, _ = written(replica)
    assert differences(manifest, replica) == []


def test_what_differs_is_listed_by_its_name(design: StateSpec) -> None:
    manifest, _ = written(Replica(design))
    replica = Replica(design)
    array = largest(replica)
    name = next(n for n, held in replica.model_arrays().items() if held.nbytes == array.nbytes)
    array.reshape(-1).view(np.uint8)[-1] ^= 1
    array.reshape(-1).view(np.uint8)[0] ^= 1
    replica.ledger.records[1, 2] += 3
    replica.end_offsets = (1, 2, 3, 4)
    model, ledger = differences(manifest, replica)[1:]
    last = -(-array.nbytes // 65536) - 1
    assert last > 0
    assert model == f"model {name}: 2 of {last + 1} pages differ (0, {last})"
    assert ledger.startswith("ledger records: checkpoint [0, 0, 0, 0, ...], log [0, 0, 0, 0, ...")
    assert "positions: checkpoint [0, 0, 0, 0], log [1, 2, 3, 4]" in differences(manifest, replica)


def test_arrays_that_only_one_side_has_are_listed(design: StateSpec) -> None:
    replica = Replica(design)
    manifest, _ = written(replica)
    fewer = msgspec.structs.replace(
        manifest, arrays=manifest.arrays[1:], ledger_arrays=manifest.ledger_arrays[1:]
    )
    found = differences(fewer, replica)
    assert f"model {manifest.arrays[0].name}: not in the checkpoint" in found
    assert f"ledger {manifest.ledger_arrays[0].name}: not in the checkpoint" in found
    odd = msgspec.structs.replace(manifest.arrays[0], shape=(1, 1), name="zzz")
    more = msgspec.structs.replace(manifest, arrays=(*manifest.arrays, odd))
    assert "model zzz: only in the checkpoint" in differences(more, replica)
    other = msgspec.structs.replace(manifest, design="0" * 32)
    assert "design" in differences(other, replica)[0]


def test_the_records_of_the_topic_are_sorted_into_generations(design: StateSpec) -> None:
    replica = Replica(design)
    largest(replica).reshape(-1)[0] = 7
    _, topic = written(replica)
    live: dict[bytes | None, tuple[int, bytes]] = {k: (0, v) for k, v in topic.items()}
    live |= {b"X": (9, b"a stranger's"), b"M" + bytes(9): (10, b"\x01 no manifest")}
    found = Inventory()
    inventory(found, live)
    assert (found.live, found.foreign, found.damaged) == (len(live), 1, 1)
    (generation,) = found.generations
    assert (generation.generation, generation.worker) == (0, "somewhere")
    assert generation.pages == sum(key[:1] == b"P" for key in topic) > 0
    assert [checkpoint["cut"] for checkpoint in generation.checkpoints] == [0]
