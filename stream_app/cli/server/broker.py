"""`murmurec broker`: a local Kafka in the background, for a laptop."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stream_app.cli.commands import Commands, option
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import say, show
from stream_app.errors import UserError

if TYPE_CHECKING:
    from stream_app.broker import Broker

app = Commands(help="Run a local Kafka in the background. Example: murmurec broker start")


@app.command()
def start(
    port: int | None = option(None, "Port (default: 9092, or any free one).", min=1, max=65535),
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start the broker, or show the running one. Needs Java 17 and, the first time, Maven.

    Example: murmurec broker start --port 9092
    """
    from stream_app.broker.detached import start_detached

    settings = settings_from(config)
    _show(start_detached(settings.data_dir, settings.cache_dir, port), as_json)


@app.command()
def stop(config: ConfigOption = None) -> None:
    """Stop the broker; its records are kept.

    Example: murmurec broker stop
    """
    from stream_app.broker.detached import stop

    say("stopped" if stop(settings_from(config).data_dir) else "no broker was running")


@app.command()
def status(
    lines: int | None = option(None, "Print the last N lines of its log.", "N", "--log", min=1),
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the running broker, or the end of its log. Exit code 1: none runs, or has a log.

    Example: murmurec broker status --log 100
    """
    from stream_app.broker.detached import log_file, status

    folder = settings_from(config).data_dir
    if lines is not None:
        with log_file(folder).open(errors="replace") as log:
            print("".join(deque(log, lines)), end="")
        return
    broker = status(folder)
    if broker is None:
        raise UserError("no broker runs in the background: start one with murmurec broker start")
    _show(broker, as_json)


def _show(broker: Broker, as_json: bool) -> None:
    row = {"bootstrap": broker.bootstrap, "pid": broker.pid, "log": str(broker.log)}
    shown = f"Kafka at {broker.bootstrap} (process {broker.pid}, log {broker.log})"
    show(row, [shown], as_json=as_json)
