"""A checkpoint and a log of the release before are adopted by this one: the same digests, a state
that verifies, and a design that changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stream_app.broker.local import free_ports
from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints.design_in_force import in_force
from stream_app.cli import run
from stream_app.log.canonical_order import Start as Position
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.replay.recompute import Replayed
from stream_app.settings import Settings
from stream_app.settings import load as load_settings
from stream_app.wire.state_records import encode_manifest
from tests.conftest import Kafka
from tests.fixtures import forks, golden
from tests.fixtures.golden import Golden
from tests.fixtures.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["open", "sealed"])
def before(request: pytest.FixtureRequest) -> Golden:
    return golden.read(request.param)


@pytest.fixture
def settings(kafka: Kafka, before: Golden, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Give the settings of the deployment, whose topics are on the broker."""
    golden.load(kafka.connection, before)
    for name, value in before.settings.items():
        monkeypatch.setenv(name, value)
    yield load_settings(bootstrap_servers=kafka.bootstrap, topic_prefix=golden.PREFIX)
    golden.remove(kafka.connection)


def config(settings: Settings, word: str) -> int:
    where = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", settings.topic_prefix]
    return run(["config", word, *where])


def test_its_manifests_are_written_with_the_same_bytes(before: Golden) -> None:
    assert len(before.manifests) == 2
    for value, manifest in before.manifests:
        assert encode_manifest(manifest, before.seal) == value


def test_its_state_is_adopted_and_verified_and_a_design_changes_it(
    settings: Settings,
    before: Golden,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = Session.from_settings(settings)
    found = reader.read_checkpoint(session.deployment)
    assert found is not None
    newest, replica = before.manifests[-1][1], found.replica
    assert (replica.cut, replica.spec.digest) == (newest.cut, newest.design)
    assert (replica.model_digest(), replica.ledger_digest()) == (newest.model, newest.ledger)
    with session.replay() as replay:
        begun = Replayed(replica, found.manifest.cut_offset)
        replica = replay.go_on(begun, Position.after(found.manifest)).replica
        again = replay.from_origin().replica
    for state in (replica, again):
        assert state.cut == before.state["cut"]
        assert state.model_digest() == before.state["model_digest"]
        assert state.ledger_digest() == before.state["ledger_digest"]
        assert state.ledger.counts() == before.state["counts"]
    assert not verify(session).differences

    monkeypatch.setenv("MURMUREC_TUNING_CLIP", "2.5")
    assert config(settings, "plan") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "clip inf 2.5 in place" in shown
    assert "workers of a release without designs in the log end at that cut" in shown


@pytest.mark.parametrize("before", ["sealed"], indirect=True)
def test_its_worker_is_replaced_and_follows_a_change_to_a_new_checkpoint(
    settings: Settings,
    before: Golden,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    words = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", settings.topic_prefix]
    folder = tmp_path_factory.mktemp("worker")
    with forks.worker(words, free_ports(1)[0], folder) as worker:
        worker.wait_until_ready()
        state = worker.wait_for(before.state["positions"])
        kept = {name: state[name] for name in before.state}
        assert kept == before.state
        assert "settings.differ" not in worker.log.read_text()
        monkeypatch.setenv("MURMUREC_TUNING_CLIP", "2.5")
        assert config(settings, "apply") == 0
        until(
            lambda: worker.state()["checkpoint"]["durable_cut"] == before.state["cut"] + 1,
            "the state of the new design is in a checkpoint",
        )
        session = Session.from_settings(settings)
        assert session.spec.digest == worker.state()["design_digest"] != state["design_digest"]
        assert not verify(session, (worker.url,)).differences
    found = reader.read_checkpoint(session.deployment)
    assert found is not None
    assert found.replica.spec.clip == 2.5
    assert in_force(session.deployment).newest == found.replica.spec
