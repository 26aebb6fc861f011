"""Set up a demo: its ratings, broker, topics, worker, page, devices, and the public catalogue."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from producers import catalogue_reader as catalogue
from producers.datasets import load as datasets
from producers.datasets import synthetic
from producers.device.requests import ReportSettings
from producers.fleet.population import Population, populate
from producers.identities import Identities
from producers.journal import Journal
from producers.person.enrolment import NO_LIMIT
from producers.publishing import Publisher
from stream_app.agents.warmup import warm_up
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.demo_processes import (
    GatewayProcess,
    WorkerProcess,
    allowed_mechanisms,
    campaigns_of,
    gateway_running,
    open_page,
    with_topics,
)
from stream_app.cli.demo.demo_processes import running as worker_running
from stream_app.cli.device.mechanism_options import today
from stream_app.cli.device.simulated_population import enrolled_population
from stream_app.cli.output import say, status
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.wire import Item, Topics

FACTS_NAME = "demo.json"  # in the demo's folder


def generated_ratings(options: DemoOptions) -> datasets.Dataset:
    """Return the ratings of a demo in time order."""
    generated = synthetic.generate(
        seed=1,
        ratings=options.ratings,
        # As many ratings a user as in MovieLens-1M, and enough items of each genre that no user has
        # rated them all: taste can be learned, and lists have what to offer.
        users=max(130, options.ratings // 150),
        items=max(320, min(2000, options.ratings // 150)),
        factors=3,
    )
    return generated.dataset.in_time_order()


@dataclass(frozen=True, eq=False)
class DemoSetup:
    """Everything that was set up before the first rating is sent."""

    settings: Settings
    worker: WorkerProcess
    dataset: datasets.Dataset
    population: Population
    mechanism: Mechanism
    journal: Journal
    folder: Path
    identities: Identities
    gateway: GatewayProcess | None = None

    @property
    def bootstrap(self) -> str:
        """The address of the broker."""
        return self.settings.servers

    @property
    def topics(self) -> Topics:
        """The names of the topics."""
        return Topics(self.settings.topic_prefix)

    @property
    def connection(self) -> Connection:
        """The connection to the broker."""
        return Connection(self.bootstrap, self.settings.kafka)

    @property
    def reporting(self) -> ReportSettings:
        """Where and how the devices report."""
        return ReportSettings(self.topics.ratings, self.mechanism, identities=self.identities)

    @property
    def deployment(self) -> Deployment:
        """The deployment that the worker serves."""
        return Deployment(self.connection, self.topics, spec_from_settings(self.settings))


def prepare(
    stack: ExitStack,
    settings: Settings,
    dataset: datasets.Dataset,
    mechanism: Mechanism,
    options: DemoOptions | None = None,
    *,
    parties: Sequence[Role] = (),
    scope: Sequence[Item] = (),
) -> DemoSetup:
    """Start the broker and the worker, create topics, publish the catalogue, make devices.

    options: those of a demo, which has a page; it is there before the worker has compiled. parties,
    scope: of its campaigns, if any.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="murmurec-demo-")))
    allowed = (mechanism.id,) if options is None else allowed_mechanisms(mechanism)
    settings = settings.model_copy(
        update={"mechanisms": allowed} | _campaigns(folder, parties, scope)
    )
    settings, kind = _start_broker(stack, settings)
    _publish_catalogue(settings, dataset)
    port, gateway = free_ports(1)[0], None
    if options is not None:
        url = f"http://127.0.0.1:{port}"
        facts = "--demo", str(folder / FACTS_NAME)
        gateway = stack.enter_context(gateway_running(settings, url, folder, *facts))
        _page_is_up(options, gateway.url)
    worker = _start_worker(stack, settings, folder, port)
    journal = stack.enter_context(Journal.open(folder / "device.journal"))
    with status(f"making a device for every user of {dataset.name}"):
        identities = Identities(journal.key, signed=settings.signed)
        population = populate(dataset, journal.key, identities)
    enrolled_population(journal, population.devices, NO_LIMIT, today())
    say(
        f"started: Kafka at {settings.servers} ({kind}; topics {settings.topic_prefix}.*), a "
        f"worker, {'the page, ' if gateway else ''}and simulated devices of "
        f"{len(population.devices):,} people ({dataset.name})"
    )
    return DemoSetup(
        settings, worker, dataset, population, mechanism, journal, folder, identities, gateway
    )


def _page_is_up(options: DemoOptions, url: str) -> None:
    end = "until Ctrl-C" if options.stays else "while the demo runs; --keep keeps it up"
    say(f"the page: {url}   ({end})")
    if options.open_page:
        open_page(url)


def _campaigns(folder: Path, parties: Sequence[Role], scope: Sequence[Item]) -> dict[str, object]:
    """Return the settings of campaigns: fresh keys of the parties, whose secret halves are in the
    folder, and a file with the scope."""
    public = tuple(keys.make(folder, role).public.hex() for role in parties)
    file = folder / "scope"
    file.write_text("".join(f"{item}\n" for item in scope))
    return {"campaign_keys": public, "campaign_scope": file if parties else None}


def _publish_catalogue(settings: Settings, dataset: datasets.Dataset) -> None:
    connection = Connection(settings.servers, settings.kafka)
    items = Topics(settings.topic_prefix).items
    line = Publisher(clients.producer(connection, linger_ms=20), items)
    catalogue.publish(line, catalogue.entries(set(dataset.items.tolist()), dataset.described))


def _start_broker(stack: ExitStack, settings: Settings) -> tuple[Settings, str]:
    """Start or check the broker, create the topics, and return the settings that name them, and
    the kind of broker."""
    own = settings.bootstrap_servers is None
    configured = None if own else Connection(settings.servers, settings.kafka)
    # On a broker of the user the demo uses topics of its own and removes them.
    prefix = settings.topic_prefix if own else f"murmurec-demo-{secrets.token_hex(4)}"
    with status("starting Apache Kafka"):
        broker = stack.enter_context(
            broker_running(None, settings.cache_dir, configured=configured, notify=say)
        )
    settings = with_topics(settings.model_copy(update={"topic_prefix": prefix}), broker)
    if not own:
        admin = clients.admin(Connection(broker.bootstrap, settings.kafka))
        names = [topic.name for topic in Topics(prefix).table(features=settings.features)]
        stack.callback(topic_admin.delete, admin, names)
    return settings, broker.kind


def _start_worker(stack: ExitStack, settings: Settings, folder: Path, port: int) -> WorkerProcess:
    """Compile the kernels, start the worker, and return it when it is ready."""
    options = {
        "--bootstrap": settings.servers,
        "--prefix": settings.topic_prefix,
        "--model": settings.model,
        "--group": f"{settings.topic_prefix}-worker",
    }
    arguments = [word for option in options.items() for word in option]
    arguments += [word for name in settings.mechanisms for word in ("--allow", name)]
    with status("starting the worker (the first start compiles its kernels: about a minute)"):
        warm_up(spec_from_settings(settings))
        worker = stack.enter_context(
            worker_running(
                arguments,
                port,
                folder,
                settings.admin_token,
                campaigns_of(settings),
            )
        )
        worker.wait_until_ready()
    return worker
