"""The state secret on a real broker: forged checkpoints and digest reports, and the ways into and
out of a secret."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import numpy as np
import pytest

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.log.cut_chain import MOST_CUTS
from stream_app.operations import adopt, truncate
from stream_app.operations.rebuild import rebuild
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.replay.cut_history import history
from stream_app.settings import Settings
from stream_app.wire import DigestReport
from stream_app.wire.state_records import (
    CHECKPOINT_FORMAT,
    DIGEST_BYTES,
    Manifest,
    ManifestKey,
    encode_manifest,
)
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
SECRET = "0123456789abcdef" * 2


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator) -> Log:
    """Give a log of four rounds."""
    made = Log(settings, send)
    made.rounds([publish(event) for event in events(rng, 120)], 4)
    return made


def session(log: Log, secret: str | None) -> Session:
    return Session.from_settings(log.settings.model_copy(update={"state_secret": secret}))


def checkpoint(log: Log, secret: str | None, cut: int) -> Manifest:
    state = log.replayed(cut)
    deployment = session(log, secret).deployment
    return write_checkpoint(deployment, state.replica, state.cut_offset, "test")


def found_cut(log: Log, secret: str | None) -> int | None:
    found = reader.read_checkpoint(session(log, secret).deployment)
    return found.manifest.cut if found else None


def forge(log: Log, genuine: Manifest, cut: int, as_format: int = CHECKPOINT_FORMAT) -> None:
    """Write a manifest of a future cut over the pages of a genuine one, as any writer can."""
    lie = msgspec.structs.replace(genuine, number=genuine.number + 1, cut=cut, cut_offset=cut)
    key = ManifestKey(lie.number % 2, lie.generation).encode()
    sealed = encode_manifest(lie)[1 + DIGEST_BYTES :]
    head = bytes([as_format])
    value = head + blake2b(head + sealed, digest_size=DIGEST_BYTES).digest() + sealed
    producer = clients.producer(log.connection)
    producer.produce(log.names.state, value, key)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_a_forged_checkpoint_is_ignored_under_a_secret(log: Log) -> None:
    manifest = checkpoint(log, SECRET, 3)
    assert found_cut(log, SECRET) == 3
    for as_format in (CHECKPOINT_FORMAT, CHECKPOINT_FORMAT + 1, CHECKPOINT_FORMAT - 1):
        forge(log, manifest, 53, as_format)
        assert found_cut(log, SECRET) == 3
    findings = verify(session(log, SECRET))
    assert (findings.cut, findings.equal()) == (3, True)


def test_a_forged_checkpoint_of_a_number_that_no_clock_reaches_is_ignored_without_a_secret(
    log: Log,
) -> None:
    """A truncation that superseded it would lead to numbers that no checkpoint may have."""
    manifest = checkpoint(log, None, 3)
    forge(log, manifest, MOST_CUTS - 1)
    assert found_cut(log, None) == 3
    assert session(log, None).recorded_origin() == manifest.origin
    planned = truncate.plan(session(log, None), 3)
    assert planned.superseded == (4,)
    assert planned.checkpoints == ()
    truncate.truncate(session(log, None), planned)
    assert history(session(log, None).deployment).next_number < 2 * 10**9
    assert found_cut(log, None) == 3


def test_a_forged_checkpoint_that_a_lost_end_explains_is_superseded_by_a_truncation(
    log: Log,
) -> None:
    """Without a secret it does not differ from a true one: a start refuses, and names the way
    out."""
    forge(log, checkpoint(log, None, 4), 54)
    with pytest.raises(UserError, match=r"lost its end.*--to-cut 4"):
        session(log, None).recorded_origin()
    planned = truncate.plan(session(log, None), 4)
    assert planned.checkpoints == (54,)
    truncate.truncate(session(log, None), planned)
    assert found_cut(log, None) == 4


def test_false_digest_reports_are_not_read_under_a_secret(log: Log) -> None:
    held = checkpoint(log, SECRET, 4)
    lie = DigestReport(3, "0" * 32, "0" * 32, held.design, held.origin.digest)
    true = DigestReport(4, held.model, held.ledger, held.design, held.origin.digest)
    deployment = session(log, SECRET).deployment
    for _ in range(5):
        log.entry(lie)
    log.entry(true.sealed(deployment.seal))
    assert history(deployment).digest_reports == (true.sealed(deployment.seal),)
    assert verify(session(log, SECRET)).equal()
    assert verify(session(log, SECRET)).model_digest == held.model
    assert len(history(session(log, None).deployment).digest_reports) == 6


@pytest.mark.thorough
def test_a_secret_is_introduced_changed_and_removed_by_one_start(log: Log) -> None:
    checkpoint(log, None, 3)
    for secret, refusal in (
        (SECRET, "no checkpoint has the seal"),
        (SECRET[::-1], "no checkpoint has the seal"),
        (None, "is sealed, and this worker has no state_secret"),
    ):
        with pytest.raises(UserError, match=refusal):
            found_cut(log, secret)
        adopt.reseal(session(log, secret))
        assert found_cut(log, secret) == 3
        before = reader.live_keys(log.connection, log.names)
        adopt.reseal(session(log, secret))
        assert reader.live_keys(log.connection, log.names) == before, "a second start: no effect"
    assert verify(session(log, None)).equal()


def test_a_rebuild_trusts_no_checkpoint(log: Log) -> None:
    checkpoint(log, None, 2)
    rebuild(session(log, SECRET))
    assert found_cut(log, SECRET) == 4
