"""`murmurec top`: a deployment at work, each second."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import console, print_json, printable, say, table

if TYPE_CHECKING:
    from rich.console import Console, Group

    from stream_app.cli.reader.watched_members import Sources
    from stream_app.monitoring.live_frame import Frame

COLUMNS = (
    *("worker", "state", "cut", "behind", "ratings/s", "queries/s", "p99", "checkpoint", "memory"),
)
_FIRST_SECONDS = 8.0
_PAUSE_SECONDS = 0.05


def top(
    cluster: Cluster,
    worker: list[str] | None = option(None, "Watch this worker; repeatable.", "URL"),
    once: bool = option(False, "Print one frame, and end."),
    as_json: JsonOption = False,
) -> None:
    """Watch workers and broker: rates, lag, errors, lists and the alerts that hold now.

    By default it asks the worker at the admin port of this machine. Ctrl-C ends it; into a pipe it
    prints one frame.

    Example: murmurec top --worker http://127.0.0.1:8470
    """
    from stream_app.cli.reader.watched_members import Sources
    from stream_app.operations.watching.workers import check_address
    from stream_app.wire import Topics

    settings = cluster.settings()
    urls = tuple(worker or (f"http://127.0.0.1:{settings.admin_port}",))
    for url in urls:
        check_address(url)
    connection = connection_from(settings) if settings.bootstrap_servers else None
    shown = console()
    names = Topics(settings.topic_prefix, settings.shards)
    with closing(Sources(urls, settings.admin_token, connection, names)) as sources:
        if once or as_json or not shown.is_terminal:
            _print(_first(sources, 2), as_json=as_json)
            return
        with suppress(KeyboardInterrupt):
            _live(sources, shown)


def _first(sources: Sources, looks: int) -> Frame:
    """Return a frame once every member was looked at so often, or does not answer."""
    deadline = time.monotonic() + _FIRST_SECONDS
    while not sources.looked(looks) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return sources.frame()


def _live(sources: Sources, shown: Console) -> None:
    """Show a frame each second, until the user ends it."""
    from rich.live import Live

    from stream_app.cli.reader.watched_members import EVERY_SECONDS

    found = _first(sources, 1)
    with Live(drawn(found), console=shown, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(EVERY_SECONDS)
            live.update(drawn(sources.frame()), refresh=True)


def drawn(found: Frame) -> Group:
    """Return a frame as it is drawn on a terminal."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(*COLUMNS, box=box.SIMPLE)
    for row in rows(found):
        grid.add_row(*row)
    return Group(grid, *(Text(sentence) for sentence in sentences(found)))


def _print(found: Frame, *, as_json: bool) -> None:
    if as_json:
        plain = found._asdict() | {"workers": [each._asdict() for each in found.workers]}
        print_json(plain, indent=2)
        return
    table(COLUMNS, rows(found))
    for sentence in sentences(found):
        say(sentence)


def rows(found: Frame) -> list[list[str]]:
    """Return a row of text for each worker."""
    return [
        [
            each.url + (" (clock)" if each.clock else ""),
            printable(each.state),
            _shown(each.cut, ",d"),
            _shown(each.lag_records, ",d"),
            _shown(each.ratings_per_second, ",.0f"),
            _shown(each.queries_per_second, ",.1f"),
            _shown(each.p99_seconds, ",.3f", " s"),
            _shown(each.checkpoint_age_seconds, ",.0f", " s"),
            _shown(each.memory_bytes and each.memory_bytes / 2**20, ",.0f", " MiB"),
        ]
        for each in found.workers
    ]


def sentences(found: Frame) -> list[str]:
    """Return what is said of the deployment as a whole, a line each."""
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in found.rejected.items())
    drift = ", ".join(f"{name} {value:.2f}" for name, value in found.drift.items())
    return [
        f"log       {printable(found.broker)}",
        f"rejected  {rejected or 'none'}",
        f"error     {_shown(found.rmse, '.3f')}, item means {_shown(found.rmse_baseline, '.3f')}",
        f"nDCG@10   {_shown(found.ndcg, '.3f')}, popular {_shown(found.ndcg_popular, '.3f')}",
        f"drift     {drift or '-'} (above 1 is one)",
        f"alerts    {', '.join(found.alerts) or 'none'}",
    ]


def _shown(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
