"""A device in Python behind a relay: it needs no Kafka, and what fails is sent again as it was."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from producers.device.sealed_gateway import SealedGateway
from producers.journal import Journal
from stream_app import wire
from stream_app.cli import run
from stream_app.wire.decoding import decode_unaddressed
from stream_app.wire.signatures import digest_of
from tests.conftest import Kafka
from tests.fixtures.gateways import written
from tests.fixtures.sealing_relays import behind_a_relay
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.test_device_run import CELL, everything, program, user_who_reports_soon
from tests.kafka.test_devices import INTAKE
from tests.stream_app.web.test_oblivious_http import PUBLIC

pytestmark = pytest.mark.kafka
JOURNAL = ["--journal", "device.journal"]


def publish(item: int, relay: str, *options: str) -> int:
    rated = ["--user", "ann", "--item", str(item), "--rating", "4"]
    return run(["publish", *JOURNAL, *rated, "--relay", relay, "--json", *options])


def test_a_device_publishes_through_a_relay_and_sends_what_failed_again(
    kafka: Kafka,
    topics: str,
    tmp_path: Path,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment()
    run(["device", "enrol", *JOURNAL, "--user", "ann"])
    older = Path("device.journal").read_bytes()
    with behind_a_relay(kafka.bootstrap, topics, tmp_path) as relay:
        named = f"{relay.address}#{relay.key}"
        capsys.readouterr()
        assert publish(1193, named, "--json-encoding") == 0
        shown = json.loads(capsys.readouterr().out)
        ((partition, key, value),) = written(kafka.connection, topics)
        assert (shown["partition"], shown["offset"], shown["device"]) == (
            partition,
            0,
            key.decode(),
        )
        assert json.loads(value)["items"] == [1193]
        assert key not in relay.clients.sent

        for answer, sentence in (
            (f"{relay.address}#{PUBLIC.hex()}", "take its key again"),
            ("http://127.0.0.1:1#" + relay.key, "cannot be reached"),
        ):
            assert publish(50 + len(sentence), answer) == 1
            assert sentence in capsys.readouterr().err
        port = relay.relays.cut()
        assert publish(260, named) == 1
        shown = capsys.readouterr().err
        assert "has no answer (502)" in shown
        assert "is kept in the journal" in shown
        assert len(written(kafka.connection, topics)) == 1
        with Journal.open(Path("device.journal")) as journal:
            waiting = [message.value for message in journal.pending()]
        relay.relays.port = port
        assert publish(318, named) == 0
        values = [each[2] for each in written(kafka.connection, topics)]
        assert values[1 : 1 + len(waiting)] == waiting
        assert len(values) == 2 + len(waiting)
        assert f"sending {len(waiting)} event" in capsys.readouterr().err

        newest = Path("device.journal").read_bytes()
        Path("device.journal").write_bytes(older)  # a backup, put back on another machine
        monkeypatch.setenv("XDG_STATE_HOME", "other-machine")
        assert publish(7, named) == 1
        assert "the device journal is an older copy" in capsys.readouterr().err
        assert len(written(kafka.connection, topics)) == len(values)
        # Who goes on knowingly passes over the numbers that the newest copy has used.
        assert publish(9, named, "--trust-journal") == 0
        assert len(written(kafka.connection, topics)) == len(values)
        Path("device.journal").write_bytes(newest)
        assert publish(8, named) == 0
        assert [each[2] for each in written(kafka.connection, topics)][:-1] == values


def test_an_event_that_somebody_forged_in_its_name_costs_a_device_behind_a_relay_one_event(
    kafka: Kafka,
    topics: str,
    tmp_path: Path,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment()
    run(["device", "enrol", *JOURNAL, "--user", "ann"])
    with behind_a_relay(kafka.bootstrap, topics, tmp_path) as relay:
        named = f"{relay.address}#{relay.key}"
        assert publish(1, named) == 0
        ((_, key, first),) = written(kafka.connection, topics)
        with Journal.open(Path("device.journal")) as journal:
            own = journal.tag(f"{topics}.ratings.v1", bytes.fromhex(key.decode()), digest_of(first))
        event, sealed = decode_unaddressed(first, INTAKE)[0], SealedGateway.named(named)
        for seq, tag in ((2, ""), (3, f"; tag={own.hex()}"), (4, f"; tag={'0' * 32}")):
            value, kind = wire.encode_json(replace(event, seq=seq)), f"application/json{tag}"
            assert sealed.asked("POST", "/reports", value, kind).status == 202
        for item in (2, 3, 4):
            capsys.readouterr()
            assert publish(item, named) == 0
            assert "not of this device: it stays paid and does not count" in capsys.readouterr().err
        assert publish(5, named) == 0
    forged = [json.loads(each) for _, _, each in written(kafka.connection, topics)[1:-1]]
    assert [each["seq"] for each in forged] == [2, 3, 4]


@pytest.mark.thorough
def test_a_running_device_reports_through_a_relay(
    kafka: Kafka, topics: str, tmp_path: Path, environment: Callable[..., None]
) -> None:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal", MURMUREC_MECHANISMS="cell:5:2")
    Path("scope.txt").write_text("5\n6\n7\n")
    with behind_a_relay(kafka.bootstrap, topics, tmp_path, mechanisms=("cell:5:2",)) as relay:
        user, device, _ = user_who_reports_soon()
        named = f"{relay.address}#{relay.key}"
        with program("--user", user, "--relay", named, *CELL) as running:
            until(
                lambda: (
                    running.poll() is not None or everything(kafka, wire.Topics(topics).ratings)
                ),
                "a report, or the end of the program",
            )
            running.send_signal(signal.SIGTERM)
            _, notices = running.communicate(timeout=PATIENCE_SECONDS)
        assert running.returncode == 0, notices
        assert "stopped after 1 message; 0 messages wait in the journal" in notices
        ((event,),) = (everything(kafka, wire.Topics(topics).ratings),)
        assert (event.device, sorted(event.items.tolist())) == (device, [5, 6, 7])
        assert device.hex().encode() not in relay.clients.sent
