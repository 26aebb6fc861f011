"""A gateway without Kafka: it decodes reports as the real one does, and keeps them.

`answers` are the statuses of the next posts, in order (0: the connection is cut, HANGS: no answer
before the end); after them every post is decoded. `posts` are the bodies of all posts, as they
came, but for `contributions`, which count once for a device and stage as at the real one, as an
event does for a device and number; of `campaign` the stage `stage` is open.
"""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.privacy import registry
from stream_app.web.cached_document import TYPES
from stream_app.wire import Intake, WireError
from stream_app.wire.campaigns.contribution import decode_value
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from stream_app.wire.decoding import decode_unaddressed
from stream_app.wire.ids import key
from stream_app.wire.signatures import digest_of, tag_in

WEB = Path(__file__).parents[2] / "deploy" / "web"
HANGS = -1
IDS = ("rr:5:2", "rr:5:1/2")
LIKE = "like:5:1"


def described(id: str) -> dict[str, object]:
    """Return a mechanism as GET /mechanisms describes it."""
    table = registry.parse(id).table()
    assert table is not None
    counts = [[str(count) for count in row] for row in table.counts]
    family = id.partition(":")[0]
    return {"id": id, "family": family, "levels": 5, "counts": counts, "in_browser": True}


@dataclass
class SmallGateway:
    """What the gateway hands out, answers and received."""

    address: str = ""
    mechanisms: list[dict[str, object]] = field(default_factory=lambda: [*map(described, IDS)])
    answers: list[int] = field(default_factory=list)
    posts: list[bytes] = field(default_factory=list)
    mechanisms_status: int = 200
    pages: dict[str, bytes] = field(default_factory=dict)
    campaign: Campaign | None = None
    stage: int = 0
    phase: str = "open"
    counted: int | None = None
    notice: float | None = 86_400.0
    demo: bool = False
    grafana: str | None = None
    contributions: list[bytes] = field(default_factory=list)
    held: dict[tuple[object, ...], bytes] = field(default_factory=dict)  # digests and tags

    def place(self, name: tuple[object, ...], body: bytes, kind: str) -> dict[str, object] | None:
        """Return the refusal for other bytes in a place that is taken, None for the first ones."""
        own = digest_of(body) + tag_in(kind)
        held = self.held.setdefault(name, own)
        if held[:16] == own[:16]:
            return None
        return {"error": "other bytes", "reason": "seq_reused", "held": held.hex()}

    def pin(self, campaign: Campaign) -> None:
        """Open a campaign, and let the page's host pin its parties and items."""
        self.campaign = campaign
        items = [f"{key(item):016x}" for item in campaign.scope]
        pinned = {"keys": campaign.keys, "items": items}
        self.pages["/web/pinned.json"] = json.dumps(pinned).encode()

    @property
    def offered(self) -> dict[str, object]:
        """What GET /mechanisms hands out."""
        allowed = {"default": self.mechanisms[0]["id"], "allowed": self.mechanisms}
        mode = "local" if self.campaign is None else "split"
        given = {"demo": self.demo, "grafana": self.grafana}
        return allowed | {"privacy_mode": mode, "devices": "open"} | given

    def taken_up(self, body: bytes, kind: str) -> tuple[int, dict[str, object]]:
        """Return the answer to a contribution that was just posted."""
        made = decode_value(body)
        assert self.campaign is not None
        if (made.plan, made.stage) != (self.campaign.digest, self.stage):
            return 409, {"error": "another stage", "reason": "stage"}
        name = made.plan, made.device, made.stage
        again = name in self.held
        if refused := self.place(name, body, kind):
            return 409, refused | {"reason": "contributed"}
        return 202, {"partition": 0, "offset": 0, "duplicate": again}

    @property
    def taken(self) -> list[dict[str, object]]:
        """The different events that were posted, by seq."""
        return sorted(map(json.loads, set(self.posts)), key=lambda event: event["seq"])


@contextmanager
def small_gateway() -> Iterator[SmallGateway]:
    """Give a running one on a free port."""
    gateway, ended = SmallGateway(), threading.Event()
    intake = Intake.of_mechanisms([registry.parse(id) for id in (*IDS, LIKE)], 4, False)

    class Views(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/mechanisms":
                return self._send(gateway.mechanisms_status, gateway.offered)
            if self.path in gateway.pages:
                return self._send(200, gateway.pages[self.path], "text/html")
            if self.path == "/campaign" and gateway.campaign is not None:
                plan = base64.b64encode(encode_plan(gateway.campaign)).decode()
                shown = {"plan": plan, "stage": gateway.stage, "phase": gateway.phase}
                shown |= {"partitions": 4, "notice": gateway.notice}
                return self._send(200, shown | {"contributions": gateway.counted})
            if self.path == "/":
                return self._send(200, b"<!doctype html><title>page</title>", "text/html")
            if not self.path.startswith("/web/"):
                return self._send(404, {"error": "there is no such page"})
            file = WEB / self.path.removeprefix("/web/")
            if not file.exists():
                return self._send(404, {"error": "there is no such file"})
            return self._send(200, file.read_bytes(), TYPES[file.suffix])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            contributes = self.path == "/contributions"
            (gateway.contributions if contributes else gateway.posts).append(body)
            status = gateway.answers.pop(0) if gateway.answers else 202
            if status == HANGS:
                ended.wait()
            if status in (0, HANGS):
                return None  # the reply is lost
            if status != 202:
                return self._send(status, {"error": f"status {status}", "reason": "test"})
            if contributes:
                return self._send(*gateway.taken_up(body, self.headers["Content-Type"]))
            try:
                event, _ = decode_unaddressed(body, intake)
            except WireError as error:
                return self._send(400, {"error": str(error), "reason": str(error.reason)})
            name = event.device, event.seq
            if refused := gateway.place(name, body, self.headers["Content-Type"]):
                return self._send(409, refused)
            return self._send(202, {"partition": 0, "offset": event.seq - 1, "duplicate": False})

        def _send(self, status: int, body: object, kind: str = "application/json") -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128  # the tabs of a browser connect at once

    with Server(("127.0.0.1", 0), Views) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        gateway.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield gateway
        finally:
            ended.set()
            server.shutdown()
            thread.join()
