"""The gateway of a demo as a process of its own: the page, from before the worker has compiled."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.broker.local import free_ports
from stream_app.cli.demo import processes
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings

_START_SECONDS = 60.0
# Strengths of protection between which a visitor of the page chooses, as epsilons.
_CHOICES = ("1/2", "1", "2", "4")
_CHOICE_LEVELS = 5
SIDE_NAME = "privacy-off.side"  # the item side from the true ratings, in the demo's folder


def allowed(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what a demo with this mechanism accepts, its own first; beside randomized response of
    five levels also stronger and weaker ones, so that a visitor of the page can choose."""
    family, *rest = mechanism.id.split(":")
    if family != "rr" or rest[0] != str(_CHOICE_LEVELS):
        return (mechanism.id,)
    choices = (registry.parse(f"rr:{_CHOICE_LEVELS}:{epsilon}").id for epsilon in _CHOICES)
    return (mechanism.id, *(choice for choice in choices if choice != mechanism.id))


@dataclass
class GatewayProcess:
    """A running gateway; `url` is the address of its page."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def check(self) -> None:
        """Raise UserError with the last lines of the log if the process has ended."""
        processes.check(self.process, "the gateway", self.log)

    def wait_until_live(self) -> None:
        """Return when the page can be loaded."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.url}livez", timeout=2.0):
                    return
            except OSError:
                time.sleep(0.05)
        raise UserError(f"no page within {_START_SECONDS:.0f} s; the gateway's log: {self.log}")


@contextmanager
def running(settings: Settings, worker_url: str, folder: Path) -> Iterator[GatewayProcess]:
    """Run `murmurec gateway` on a free port for the length of the block. A free port is another
    origin for a browser: a page of an earlier demo left no device for this one."""
    port, log = free_ports(1)[0], folder / "gateway.log"
    options = {
        "--bootstrap": settings.servers,
        "--prefix": settings.topic_prefix,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--demo-side": str(folder / SIDE_NAME),
    }
    arguments = ["gateway", *(word for option in options.items() for word in option)]
    for mechanism in settings.mechanisms:
        arguments += ["--allow", mechanism]
    environment = {"MURMUREC_GATEWAY_WORKER": worker_url, "MURMUREC_PRIVACY_MODE": "local"}
    with processes.started(arguments, log, environment) as process:
        gateway = GatewayProcess(process, f"http://127.0.0.1:{port}/", log)
        gateway.wait_until_live()
        yield gateway
