"""The version of the event format on a real broker: raised by the log, decoded alike by readers of
every release that knows it, and the end of one that does not."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.errors import UserError
from stream_app.log.canonical_order import Start
from stream_app.replay.follower import Follower
from stream_app.replay.recompute import take
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import Contract
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.streams import Published, events, publish
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def records(rng: np.random.Generator) -> list[Published]:
    """Give records, every second one with an extension block."""
    given = [publish(event) for event in events(rng, 120)]
    return [with_block(r) if number % 2 else r for number, r in enumerate(given)]


def with_block(record: Published) -> Published:
    fields = msgspec.msgpack.decode(record.value) | {"x": {"colour": "red"}}
    return replace(record, value=msgspec.msgpack.encode(fields))


@pytest.fixture
def log(settings: Settings, send: Send, records: list[Published]) -> Log:
    """Give a log of four rounds; the version is raised after the second."""
    made = Log(settings, send)
    made.rounds(records[:60], 2)
    made.entry(Contract(2))
    made.rounds(records[60:], 2)
    return made


def state_of(log: Log, start: Start, replica: Replica, knows: int) -> Replica:
    """Return the state at the newest cut, as a release that knows so many versions computes it."""
    follower = Follower(log.deployment, start, newest_contract=knows)
    try:
        while replica.cut < log.number:
            for piece in follower.poll(0.05):
                take(replica, piece)
    finally:
        follower.close()
    return replica


def test_the_log_decides_and_no_release_differs(log: Log) -> None:
    spec = log.deployment.spec
    zero = Start(0, (0,) * 4)
    current = log.replayed().replica
    assert current.ledger.rejected() == {"malformed": 30}
    assert (current.contract, log.replayed(2).replica.contract) == (2, 1)
    newer = state_of(log, zero, Replica(spec), knows=9)
    assert (newer.model_digest(), newer.ledger_digest()) == (
        current.model_digest(), current.ledger_digest(),
    )  # fmt: skip
    older = Replica(spec)
    with pytest.raises(UserError, match=r"sets version 2 .* knows versions up to 1: install"):
        state_of(log, zero, older, knows=1)
    assert (older.cut, older.model_digest()) == (2, log.replayed(2).replica.model_digest())


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_worker_that_starts_from_a_checkpoint_decodes_alike(log: Log, cut: int) -> None:
    state = log.replayed(cut)
    manifest = write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    assert manifest.contract == (2 if cut == 3 else 1)
    start = Start(manifest.cut, manifest.end_offsets, manifest.cut_offset, manifest.contract)
    whole = log.replayed().replica
    went_on = state_of(log, start, state.replica, knows=2)
    assert (went_on.model_digest(), went_on.ledger_digest()) == (
        whole.model_digest(), whole.ledger_digest(),
    )  # fmt: skip
    origin = StateOrigin(cut, manifest.end_offsets, contract=manifest.contract)
    from_there = log.replayed(origin=origin).replica
    assert from_there.contract == 2
    assert from_there.ledger.rejected() == ({"malformed": 15} if cut == 1 else {})
