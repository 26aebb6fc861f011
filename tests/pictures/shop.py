"""A site with an edge of its own, whose visitors are people of the same generated population.

The first half of their ratings is a file that the edge imports. Then, each half second, some rate
what they rated next in the data, are shown a list, and click on the first item of it that they rate
later. Two models rank, so that they can be compared.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from producers.datasets.load import Dataset
from stream_app.broker.local import free_ports
from stream_app.cli.demo.demo_processes import started
from stream_app.errors import UserError
from tests.fixtures.waiting import until

TICK_SECONDS, VISITS = 0.5, 6  # of a tick
THINNED = 6  # one rating in so many is a visit: people arrive all the time
MECHANISM = "rr:5:1/2"  # a budget of (20, 1e-6) holds 93 reports
SITE = f"""
[reports]
mechanism = "{MECHANISM}"
every_seconds = 10
[lists]
models = ["local", "popular"]
"""


@contextmanager
def open_shop(servers: str, folder: Path, visitors: Dataset) -> Iterator[str]:
    """Run an edge and its visitors for the length of the block; yield its address."""
    (folder / "site.toml").write_text(SITE)
    half = len(visitors) // 2
    (folder / "events.csv").write_text(
        "user,item,type,value,time\n" + "".join(_past(visitors, half))
    )
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ["edge", "--bootstrap", servers, "--site", str(folder / "site.toml")]
    command += ["--port", address.rpartition(":")[2], "--store", f"sqlite:///{folder}/edge.db"]
    command += ["--events", str(folder / "events.csv")]
    ended = threading.Event()
    with started(command, folder / "edge.log") as edge:
        until(lambda: edge.poll() is not None or _lives(address), "the edge lives")
        if edge.poll() is not None:
            raise UserError(f"the edge ended: {(folder / 'edge.log').read_text()[-500:]}")
        thread = threading.Thread(target=_visits, args=(address, visitors, half, ended))
        thread.start()
        try:
            yield address
        finally:
            ended.set()
            thread.join()


def _past(visitors: Dataset, half: int) -> Iterator[str]:
    began = int(time.time()) - half
    columns = visitors.users[:half], visitors.items[:half], visitors.ratings[:half]
    for second, (user, item, stars) in enumerate(zip(*columns, strict=True)):
        yield f"user-{user},{item},rating,{stars:g},{began + second}\n"


def _visits(address: str, visitors: Dataset, half: int, ended: threading.Event) -> None:
    later = defaultdict[int, set[int]](set)
    rest = visitors.users[half:].tolist(), visitors.items[half:].tolist()
    for user, item in zip(*rest, strict=True):
        later[user].add(item)
    rows = iter(range(half, len(visitors), THINNED))
    while not ended.wait(TICK_SECONDS):
        for row in islice(rows, VISITS):
            user, item = int(visitors.users[row]), int(visitors.items[row])
            later[user].discard(item)
            _sent(address, user, item, "rating", value=float(visitors.ratings[row]))
            shown = _read(address, f"/recommendations/user-{user}?n=10")
            liked = (each for each in shown["items"] if int(each["item"]) in later[user])
            if (hit := next(liked, None)) is not None:
                _sent(address, user, int(hit["item"]), "click", list=shown["list"])


def _sent(address: str, user: int, item: int, type: str, **more: Any) -> None:
    event = {"user": f"user-{user}", "item": str(item), "type": type, **more}
    request = urllib.request.Request(
        f"http://{address}/events",
        json.dumps(event).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


def _read(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
        return json.load(reply)


def _lives(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}/livez", timeout=2):
        return True
