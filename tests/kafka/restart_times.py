"""How long a killed worker is away: from the start of the new process to its first assignment, and
to the right to write, with and without the table, static and dynamic.

    python -m tests.kafka.restart_times BOOTSTRAP [--restarts 20] [--only WORDS]

The process is a worker without a model (`tests.kafka.member`): what is measured is membership.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import time
from pathlib import Path

import numpy as np

from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create, delete
from stream_app.wire import Topics
from tests.kafka.members import running

WAYS = {
    "static, table, no fixed second": ("--instance", "a"),
    "static, agent alone, no fixed second": ("--instance", "a", "--no-table"),
    "static, agent alone, Faust's second": ("--instance", "a", "--no-table", "--slow"),
    "dynamic, table, no fixed second": (),
    "dynamic, agent alone, no fixed second": ("--no-table",),
}


class Way:
    """A worker that is killed and started again, and how long it took each time."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.name, self.options = name, WAYS[name]
        self.bootstrap, self.folder = bootstrap, folder / secrets.token_hex(4)
        self.prefix = f"restart-{self.folder.name}"
        self.awaited = "recovered" if "--no-table" in self.options else "owns"
        self.times: dict[str, list[float]] = {"assigned": [], self.awaited: []}
        create(clients.admin(Connection(bootstrap)), Topics(self.prefix).table())

    def run(self) -> dict[str, float]:
        """Start the worker, and kill it a second after it was assigned the cut log."""
        with running(self.bootstrap, self.prefix, self.folder, *self.options) as process:
            awaited = process.wait(self.awaited)
            time.sleep(1.0)
            return {"assigned": process["assigned"][-1]["time"], self.awaited: awaited["time"]}

    def again(self) -> None:
        """Measure one restart: at once after a kill, while the session of the dead one lasts."""
        self.run()
        for event, seconds in self.run().items():
            self.times[event].append(seconds)

    def report(self) -> None:
        """Print the times, and leave nothing behind."""
        for event, times in self.times.items():
            low, middle, high = np.percentile(times, (0, 50, 99))
            print(
                f"{self.name:38} {event:10} best {low:5.2f}  p50 {middle:5.2f}  p99 {high:5.2f} s"
            )
        delete(
            clients.admin(Connection(self.bootstrap)), [t.name for t in Topics(self.prefix).table()]
        )


def main() -> None:
    """Restart each way in turn, so that all suffer from what else the machine does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in WAYS if options.only in name]
        ways = [Way(options.bootstrap, name, Path(folder)) for name in names]
        for _ in range(options.restarts):
            for way in ways:
                way.again()
        for way in ways:
            way.report()


if __name__ == "__main__":
    main()
