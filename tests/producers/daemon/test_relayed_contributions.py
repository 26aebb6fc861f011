"""A running device in campaigns behind a relay: what a gateway shows, takes and refuses."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread
from typing import Any

import msgspec
import pytest

from producers.campaign.relayed_campaigns import RelayedCampaigns
from producers.campaign.terms import Pinned
from producers.daemon.delivery import RETRY_SECONDS, Delivery
from producers.daemon.scheduled_contributions import Contributing
from producers.device.sealed_gateway import RelayProducer, SealedGateway
from producers.journal import Journal
from stream_app.errors import OlderJournal, UserError
from stream_app.web import binary_http, oblivious_http
from stream_app.web.binary_http import Message
from stream_app.wire.campaigns.contribution import decode_value
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from stream_app.wire.signatures import digest_of
from tests.producers.daemon.test_contributing import USERS, path, rate
from tests.producers.daemon.world import Device, device, pseudonym
from tests.producers.test_campaign import TOPIC, pinned, plan
from tests.stream_app.aggregation.world import keys_of, read_by_all
from tests.stream_app.web.test_oblivious_http import PUBLIC, SECRET

__all__ = ["path"]
TAKEN = 202, {"partition": 1, "offset": 7, "duplicate": False}


@dataclass
class Gateway:
    """A gateway and its relay in one: opens what is sealed, and answers as a test says."""

    shown: dict[str, Any] | None = None
    answer: tuple[int, dict[str, Any]] = TAKEN
    asked: list[Message] = field(default_factory=list)
    at: str = ""

    def show(self, campaign: Campaign, **changed: Any) -> None:
        encoded = base64.b64encode(encode_plan(campaign)).decode()
        given = {"plan": encoded, "stage": 0, "phase": "open", "partitions": 4, "notice": 90.5}
        self.shown = given | changed

    @property
    def taken(self) -> list[bytes]:
        return [each.content for each in self.asked if each.control[0] == "POST"]

    def answered(self, asked: Message) -> Message:
        self.asked.append(asked)
        match asked.control[0], asked.control[3]:
            case "POST", "/contributions":
                ((name, kind),) = asked.fields
                assert name == "content-type"
                assert re.fullmatch("application/octet-stream; tag=[0-9a-f]{32}", kind)
                return Message((), json.dumps(self.answer[1]).encode(), self.answer[0])
            case "GET", "/campaign" if self.shown is None:
                return Message((), b"", 204)
            case "GET", "/campaign":
                status = self.shown.get("status", 200)
                return Message((), json.dumps(self.shown).encode(), status)
        raise AssertionError(asked.control)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    found = Gateway()

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sealed = self.rfile.read(int(self.headers["Content-Length"]))
            asked, answer = oblivious_http.open_request(SECRET, sealed)
            reply = answer.seal(binary_http.encode(found.answered(binary_http.decode(asked))))
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        found.at = f"http://127.0.0.1:{server.server_port}#{PUBLIC.hex()}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@dataclass
class Relayed:
    device: Device
    delivery: Delivery

    def minutes(self, count: float) -> None:
        clock, daemon = self.device.clock, self.device.daemon
        end = clock.at + 60 * count
        while clock.at < end:
            daemon.step()
            coming = daemon._coming or end
            clock.at = min(end, max(coming, clock.at + 0.001))
        daemon.step()


def relayed(journal: Journal, at: str, terms: Pinned, *, trusted: bool = False) -> Relayed:
    found = device(journal)
    named, say = SealedGateway.named(at), found.notices.append
    connect = partial(
        RelayProducer, named, "/contributions", tag=journal.tag, trusted=trusted, over=say
    )
    delivery = Delivery(journal, TOPIC, connect, say, lambda: found.clock.at)
    campaigns = Contributing(journal, terms, delivery, TOPIC, RelayedCampaigns(named).rounds)
    campaigns.start(journal.enrolled(), found.clock.now())
    found.daemon.campaigns = campaigns
    return Relayed(found, delivery)


def debits(journal: Journal) -> list[int]:
    spent = [journal.spent(pseudonym(journal, each)).get("user") for each in USERS]
    return [0 if each is None else each.reports for each in spent]


@pytest.mark.parametrize("parties", [1, 2])
def test_every_account_contributes_once_to_each_stage_and_pays_once(
    gateway: Gateway, path: Path, parties: int
) -> None:
    keys = keys_of(parties)
    campaign = plan(keys)
    rate(path)
    with Journal.open(path) as journal:
        found = relayed(journal, gateway.at, replace(pinned(campaign), notice=90))
        found.minutes(2)
        assert gateway.taken == []
        for phase, stage in (("planned", 0), ("open", 0), ("closed", 0), ("open", 1), (None, None)):
            gateway.show(campaign, phase=phase, stage=stage)
            found.minutes(2)
        assert debits(journal) == [1, 1, 1]
        assert journal.pending() == []
        devices = [pseudonym(journal, user) for user in USERS]
    assert found.device.notices == []
    sent = [decode_value(value) for value in gateway.taken]
    assert sorted((each.stage, each.device) for each in sent) == sorted(
        (stage, each) for stage in (0, 1) for each in devices
    )
    assert {each.plan for each in sent} == {campaign.digest}
    vectors = {each.device: read_by_all(campaign, each, keys).any() for each in sent}
    assert vectors == {each: each == devices[0] for each in devices}  # bob liked nothing


def test_what_was_not_confirmed_is_sent_again_as_it_was_and_paid_once(
    gateway: Gateway, path: Path
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign)
    gateway.answer = 503, {"error": "Kafka is away", "reason": "kafka"}
    with Journal.open(path) as journal:
        found = relayed(journal, gateway.at, pinned(campaign))
        found.minutes(2)
        waiting = [each.value for each in journal.pending()]
        assert (len(waiting), debits(journal)) == (3, [1, 1, 1])
        assert "the gateway answers 503: Kafka is away" in found.device.notices[0]
        gateway.asked.clear()
        gateway.answer = TAKEN
        found.device.clock.at += RETRY_SECONDS
        found.minutes(1)
        assert gateway.taken == waiting
        assert (journal.pending(), debits(journal)) == ([], [1, 1, 1])


def test_nothing_is_drawn_while_the_relay_is_away(path: Path) -> None:
    campaign = plan(keys_of(2))
    with Journal.open(path) as journal:
        found = relayed(journal, f"http://127.0.0.1:1#{PUBLIC.hex()}", pinned(campaign))
        found.minutes(3)
        assert (journal.pending(), debits(journal)) == ([], [0, 0, 0])
        (sentence,) = found.device.notices
        assert "cannot be reached" in sentence


def test_what_a_relay_says_instead_of_http_is_printed_harmlessly() -> None:
    class Noise(StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"\x1b[2J" + b"x" * 1000 + b"\r\n")

    with TCPServer(("127.0.0.1", 0), Noise) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(UserError, match="cannot be reached") as found:
            SealedGateway(address, PUBLIC).asked("GET", "/campaign")
        thread.join()
    assert str(found.value).isprintable()
    assert len(str(found.value)) < 300


def test_a_gateway_that_has_other_bytes_for_the_stage_ends_an_older_copy(
    gateway: Gateway, path: Path
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign)
    with Journal.open(path) as journal:
        digest = digest_of(b"what the newest copy has sent")
        tags = [journal.tag(TOPIC, pseudonym(journal, user), digest) for user in USERS]
        gateway.answer = (
            409,
            {
                "error": "the first count",
                "reason": "contributed",
                "held": (digest + tags[0]).hex(),
            },
        )
        with pytest.raises(OlderJournal, match="the device journal is an older copy"):
            relayed(journal, gateway.at, pinned(campaign)).minutes(2)
        assert journal.pending()
        relayed(journal, gateway.at, pinned(campaign), trusted=True).minutes(2)
        assert journal.pending() == []


@pytest.mark.parametrize("held", ["", "0" * 64, "of another device"])
def test_a_contribution_that_somebody_else_made_in_its_name_ends_no_device(
    gateway: Gateway, path: Path, held: str
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign)
    with Journal.open(path) as journal:
        if held == "of another device":  # of the same journal, which takes no part
            digest = digest_of(b"copied")
            held = (digest + journal.tag(TOPIC, pseudonym(journal, "dan"), digest)).hex()
        refusal = {"error": "the first count", "reason": "contributed"}
        gateway.answer = 409, refusal | ({"held": held} if held else {})
        found = relayed(journal, gateway.at, pinned(campaign))
        found.minutes(2)
        assert (journal.pending(), debits(journal)) == ([], [1, 1, 1])
        assert "not of this device: it stays paid" in found.device.notices[0]


def test_a_contribution_that_is_too_late_is_said_and_does_not_hold_up_the_next_stage(
    gateway: Gateway, path: Path
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign)
    gateway.answer = 409, {"error": "no stage is open", "reason": "stage"}
    with Journal.open(path) as journal:
        found = relayed(journal, gateway.at, pinned(campaign))
        found.minutes(2)
        assert len(gateway.taken) == 3
        assert (journal.pending(), debits(journal)) == ([], [1, 1, 1])
        assert set(found.device.notices) == {
            "the gateway takes a contribution no more (stage): it stays paid, counted or not, "
            "and the next stage is looked for as ever"
        }
        gateway.answer = TAKEN
        gateway.show(campaign, stage=1)
        found.minutes(2)
        assert (len(gateway.taken), debits(journal)) == (6, [1, 1, 1])


NO_CAMPAIGN = "shows at /campaign is no campaign that this release can read"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"notice": 89.9}, "was public for 89 s before it opened"),
        ({"notice": None}, "does not say when its plan was appended"),
        ({"status": 409, "error": "devices sign here"}, "answers 409: devices sign here"),
        ({"status": 409, "error": "\x1b[2J"}, "answers 409 and no readable JSON"),
        ({"status": 409, "error": "x" * 10**6}, "answers 409 and no readable JSON"),
        ({"stage": 2}, NO_CAMPAIGN),
        ({"stage": -1}, NO_CAMPAIGN),
        ({"stage": "0"}, NO_CAMPAIGN),
        ({"phase": "ajar"}, NO_CAMPAIGN),
        ({"phase": None}, NO_CAMPAIGN),
        ({"plan": "e30="}, NO_CAMPAIGN),
        ({"plan": "?"}, NO_CAMPAIGN),
        ({"plan": base64.b64encode(b"[" * 10**5).decode()}, NO_CAMPAIGN),
    ],
)
def test_what_a_gateway_shows_wrongly_is_said_once_and_costs_nothing(
    gateway: Gateway, path: Path, changed: dict[str, Any], sentence: str
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign, **changed)
    refused(gateway, path, replace(pinned(campaign), notice=90), sentence)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"v": 2}, NO_CAMPAIGN),
        ({"keys": ()}, NO_CAMPAIGN),
        ({"keys": ("00" * 32, "11" * 32)}, "names the keys"),
        ({"scope": (6, 5, 4, 3, 2, 1)}, "in another order"),
        ({"signed": True}, "counts signed contributions alone"),
    ],
)
def test_a_plan_other_than_what_is_pinned_is_refused_as_by_kafka(
    gateway: Gateway, path: Path, changed: dict[str, Any], sentence: str
) -> None:
    campaign = plan(keys_of(2))
    gateway.show(msgspec.structs.replace(campaign, **changed))
    refused(gateway, path, pinned(campaign), sentence)


def test_a_device_that_signs_contributes_to_no_unsigned_plan(gateway: Gateway, path: Path) -> None:
    campaign = plan(keys_of(2))
    gateway.show(campaign)
    refused(gateway, path, replace(pinned(campaign), signs=True), "that no device has signed")


def refused(gateway: Gateway, path: Path, terms: Pinned, sentence: str) -> None:
    with Journal.open(path) as journal:
        found = relayed(journal, gateway.at, terms)
        found.minutes(3)
        assert (gateway.taken, journal.pending(), debits(journal)) == ([], [], [0, 0, 0])
        (notice,) = found.device.notices
        assert sentence in notice
