"""The examples of the page; a test runs each against a real gateway."""

from __future__ import annotations

from stream_app.gateway.contract.messages import DEVICE

SEND = (
    """curl -sS -H 'Content-Type: application/json' "$GATEWAY/reports" -d '{"v": 1,
  "device": "DEVICE", "seq": 1, "mechanism": "rr:5:2",
  "epoch": '$(($(date +%s) / 86400))', "items": [1193], "reports": [3]}'"""
).replace("DEVICE", DEVICE.hex())
ALLOWED = 'curl -sS --compressed "$GATEWAY/mechanisms"'
LIST = f'curl -sS "$GATEWAY/recommendations/{DEVICE.hex()}?k=5"'
SIDE = 'curl -sS --compressed -o item-links.bin -w "%{http_code}\\n" "$GATEWAY/item-links"'
STREAM = 'curl -sSN "$GATEWAY/stream"'

DEVICE_JS = """const { Device } = await import("/web/device.js");
const device = await Device.open({ database: "docs" });

// The level (0 .. 4 for one to five stars) stays here; a report of it is drawn and recorded.
const film = { item: 1193, key: "00000000000004a9" };
await device.rate({ ...film, level: 4 });
const { waiting, problem } = await device.send();
const [{ place }] = await device.records(); // partition and offset in Kafka
"""
RANKING_JS = """const { decodeSide, rank } = await import("/web/ranking.js");
const reply = await fetch("/item-links", { credentials: "omit" });
const side = reply.status === 200 ? decodeSide(await reply.arrayBuffer()) : null; // 204: later

// Nothing of this leaves the browser: all clients load the same bytes.
const history = [{ key: "00000000000004a9", stars: 5 }];
const list = side ? rank(side, history, 10) : [];
"""

# Name, title, language, code.
USAGE: tuple[tuple[str, str, str, str], ...] = (
    ("allowed", "What is allowed here, with the tables to draw from", "sh", ALLOWED),
    (
        "send",
        "Send one event (this report is made up: a device draws it with the table)",
        "sh",
        SEND,
    ),
    ("list", "A list by the workers, which shows them who asks", "sh", LIST),
    ("side", "The item side, from which a device ranks by itself", "sh", SIDE),
    ("watch", "Numbers of the whole stream", "sh", STREAM),
    (
        "device",
        "A device in the browser (paste it into the console of this page)",
        "js",
        DEVICE_JS,
    ),
    ("ranking", "A list that the browser ranks by itself", "js", RANKING_JS),
)
