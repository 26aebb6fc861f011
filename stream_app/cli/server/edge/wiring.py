"""What an edge is made from, by its options and the settings of the recommender that it reports to.

presence is public      reports of what is new, every few seconds
presence is protected   needs --scope, the public items on which every account reports
campaigns               where the settings name the keys of the parties, and a scope
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from consumers.recommendations import Recommendations
from producers.campaign.terms import Pinned
from producers.daemon.cells import Cells
from producers.device.pinned_scope import read_ordered, read_scope
from producers.edge.edge_service import Service
from producers.edge.events.topic_mapping import read_mapping
from producers.edge.events.topic_source import TopicSource
from producers.edge.lists.models import AskWorkers
from producers.edge.lists.newest_tables import READ_SECONDS
from producers.edge.reporting.ways_out import CampaignOptions, ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.ranking.published import Source
from stream_app.broker import resolve
from stream_app.broker.local import free_ports
from stream_app.cli.demo import demo_processes as processes
from stream_app.cli.device.publishers import (
    check_copies,
    contributions_publisher_for,
    item_table_for,
    publisher_for,
)
from stream_app.cli.device.running.campaign_part import round_reader
from stream_app.cli.options import campaign_keys, campaign_scope, connection_from
from stream_app.cli.output import notice, say
from stream_app.errors import UsageError, UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.wire import Item, Topics, Unlisted
from stream_app.wire.limits import MAX_SCOPE

if TYPE_CHECKING:
    from stream_app.cli.server.edge import EdgeFlags

_PROBE_SECONDS = 0.5
STANDALONE_SECONDS = 5.0  # between reports, and looks for a table, of a standalone edge


@dataclass(frozen=True)
class Standalone:
    """Broker, worker and gateway of one's own beside an edge, and the settings that reach them."""

    settings: Settings
    worker: processes.WorkerProcess
    gateway: processes.GatewayProcess

    def check(self) -> None:
        """Raise UserError if a process has ended."""
        self.worker.check()
        self.gateway.check()

    def problem(self) -> str | None:
        """Return what the worker waits for; None when it is ready."""
        waits = self.worker.waits_for(_PROBE_SECONDS)
        return f"the worker: {waits}" if waits else None


@contextmanager
def standalone(settings: Settings, folder: Path, mechanism: str) -> Iterator[Standalone]:
    """Run broker, worker and gateway, which allow a mechanism, for the length of the block, or
    until this process ends, even if it is killed.

        FOLDER/kafka       the log, which a restart finds again: what was reported was paid
        FOLDER/*.log       what the processes write

    Lists are made from the site's own events until the worker has compiled its kernels, about a
    minute at the first start.
    """
    if settings.bootstrap_servers is not None:
        raise UserError("--standalone starts a Kafka of its own: unset MURMUREC_BOOTSTRAP_SERVERS")
    folder.mkdir(mode=0o700, exist_ok=True)
    with resolve.running(folder / "kafka", settings.cache_dir, notify=say) as broker:
        settings = settings.model_copy(update={"mechanisms": (mechanism,)})
        settings = processes.with_topics(settings, broker)
        arguments = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix]
        arguments += ["--allow", mechanism]
        local = {"MURMUREC_PRIVACY_MODE": "local", "MURMUREC_CAMPAIGN_KEYS": ""}
        token, port = settings.admin_token, free_ports(1)[0]
        with (
            processes.running(arguments, port, folder, token, local) as worker,
            processes.gateway_running(settings, worker.url, folder) as gateway,
        ):
            say(f"Kafka at {broker.bootstrap}; what the recommender sees: {gateway.url}")
            yield Standalone(settings, worker, gateway)


def check_files(flags: EdgeFlags, terms: SiteTerms) -> None:
    """Raise UserError for a file of the options that is wrong, and UsageError for one that the
    mechanism needs."""
    if terms.hides_presence and flags.scope is None:
        raise UsageError(
            f"{terms.mechanism.id} reports on a public list of items: give it with --scope FILE"
        )
    for path in filter(None, (flags.items, flags.events)):
        readable(path)
    if flags.scope is not None and terms.hides_presence:
        read_scope(flags.scope)
    elif flags.scope is not None:
        read_ordered(flags.scope, MAX_SCOPE)
    if flags.mapping is not None:
        read_mapping(flags.mapping)


def readable(path: Path) -> None:
    """Raise UserError for a file that cannot be read."""
    try:
        path.expanduser().open("rb").close()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def edge_of(
    flags: EdgeFlags, settings: Settings, terms: SiteTerms, beside: Standalone | None
) -> Service:
    """Return the edge; `beside`: the recommender is the site's own, which may ask it to forget a
    device."""
    own = beside is not None
    connection, prefix = connection_from(settings), settings.topic_prefix
    return Service(
        store=flags.store,
        terms=terms,
        source=lambda: Source.of_deployment(connection, prefix, settings.cache_dir),
        reporting=_reporting(flags, settings, terms, own=own),
        privacy_mode=settings.privacy_mode,
        table_seconds=STANDALONE_SECONDS if own else READ_SECONDS,
        server=_asking(connection, prefix) if "server" in terms.models else None,
        topic_source=_topic_source(flags, settings),
        beside=(lambda: None) if beside is None else beside.problem,
        notice=notice,
    )


def _reporting(
    flags: EdgeFlags, settings: Settings, terms: SiteTerms, *, own: bool
) -> ReportingOptions:
    cells, digest = None, b""
    if terms.hides_presence and flags.scope is not None:
        items, digest = read_scope(flags.scope)
        cells = Cells(items, 1, settings.hash_seed)
    return ReportingOptions(
        topic=Topics(settings.topic_prefix).ratings,
        connect=lambda: publisher_for(settings).producer,
        table=item_table_for(terms.mechanism, settings, patient=True),
        cells=cells,
        scope_digest=digest,
        campaigns=_campaigns(flags, settings),
        check=partial(check_copies, settings),
        forget=partial(_forget, settings) if own else None,
    )


def _campaigns(flags: EdgeFlags, settings: Settings) -> CampaignOptions | None:
    """Return how accounts take part in campaigns, None where the settings name no parties."""
    if not settings.campaign_keys or not (settings.campaign_scope or flags.scope):
        return None
    keys = campaign_keys(settings, None)
    items, digest = read_ordered(campaign_scope(settings, flags.scope), MAX_SCOPE)
    return CampaignOptions(
        topic=Topics(settings.topic_prefix).contributions,
        connect=lambda: contributions_publisher_for(settings).producer,
        pinned=Pinned(keys, items, signs=settings.signed, notice=settings.campaign_notice_seconds),
        scope_digest=digest,
        rounds=round_reader(settings),
    )


def _forget(settings: Settings, device: bytes) -> None:
    """Ask every worker of one's own recommender to forget a device."""
    from stream_app.operations.forget import forget
    from stream_app.operations.session import Session, of_device

    pseudonym = device.hex()
    forget(Session.from_settings(of_device(settings, pseudonym)), pseudonym, rebuild=False)


def _asking(connection: Connection, prefix: str) -> AskWorkers:
    """Return what asks the workers, by a client for each call: a client is of one thread."""

    def ask(device: bytes, n: int) -> Sequence[Item]:
        with Recommendations(connection, prefix) as recommendations:
            found = recommendations.best(device.hex(), k=n).items
            return [item for item in found if not isinstance(item, Unlisted)]

    return ask


def _topic_source(
    flags: EdgeFlags, settings: Settings
) -> Callable[[Database, SiteTerms], TopicSource] | None:
    if flags.topic is None or flags.mapping is None:
        return None
    servers, _, topic = flags.topic.rpartition("/")
    # Its own cluster gets none of the passwords of the recommender's.
    connection = Connection(servers, {}) if servers else connection_from(settings)
    group, mapping = f"{settings.topic_prefix}-edge", read_mapping(flags.mapping)
    return lambda database, terms: TopicSource(connection, topic, group, mapping, database, terms)
