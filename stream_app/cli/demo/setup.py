"""Set up a demo: broker, topics, worker, devices, and the public catalogue."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from producers import catalogue_reader as catalogue
from producers.datasets import load as datasets
from producers.device.item_means import ItemMeans
from producers.device.requests import ReportSettings
from producers.fleet.population import Population, populate
from producers.identities import Identities
from producers.journal import Journal
from producers.person.enrolment import NO_LIMIT, PersonBudget
from producers.publishing import Publisher
from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import (
    SIDE_NAME,
    GatewayProcess,
    WorkerProcess,
    allowed_mechanisms,
    gateway_running,
    with_topics,
)
from stream_app.cli.demo.demo_processes import running as worker_running
from stream_app.cli.device.mechanism_options import today
from stream_app.cli.device.publishers import item_table_for
from stream_app.cli.device.simulated_population import enrolled_population
from stream_app.cli.output import say, status
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.wire import Topics


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
    def unit(self) -> float:
        """Data units per star of the learner's scale, 1 .. 5."""
        values = self.population.scale.values
        return float(values[-1] - values[0]) / 4.0

    @property
    def reporting(self) -> ReportSettings:
        """Where and how the devices report."""
        return ReportSettings(
            self.topics.ratings, self.mechanism, self.item_table, identities=self.identities
        )

    @property
    def item_table(self) -> ItemMeans:
        """The public item table, where the mechanism uses one."""
        return item_table_for(self.mechanism, self.settings)

    @property
    def deployment(self) -> Deployment:
        """The deployment that the worker serves."""
        return Deployment(self.connection, self.topics, spec_from_settings(self.settings))


def prepare(
    stack: ExitStack,
    settings: Settings,
    dataset: datasets.Dataset,
    mechanism: Mechanism,
    budget: PersonBudget = NO_LIMIT,
    opened: Callable[[str], None] | None = None,
) -> DemoSetup:
    """Start the broker and the worker, create topics, publish the catalogue, make devices.

    `budget`: of each simulated person. `opened` is called with the page's address as soon as the
    page is there, before the worker has compiled; None: no gateway.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="murmurec-demo-")))
    allowed = (mechanism.id,) if opened is None else allowed_mechanisms(mechanism)
    settings = settings.model_copy(update={"mechanisms": allowed})
    settings = _start_broker(stack, settings)
    _publish_catalogue(settings, dataset)
    port, gateway = free_ports(1)[0], None
    if opened is not None:
        url = f"http://127.0.0.1:{port}"
        side = "--demo-side", str(folder / SIDE_NAME)
        gateway = stack.enter_context(gateway_running(settings, url, folder, *side))
        opened(gateway.url)
    worker = _start_worker(stack, settings, folder, port)
    journal = stack.enter_context(Journal.open(folder / "device.journal"))
    with status(f"making a device for every user of {dataset.name}"):
        identities = Identities(journal.key, signed=settings.signed)
        population = populate(dataset, journal.key, identities)
    say(enrolled_population(journal, population.devices, budget, today()))
    return DemoSetup(
        settings, worker, dataset, population, mechanism, journal, folder, identities, gateway
    )


def _publish_catalogue(settings: Settings, dataset: datasets.Dataset) -> None:
    connection = Connection(settings.servers, settings.kafka)
    items = Topics(settings.topic_prefix).items
    line = Publisher(clients.producer(connection, linger_ms=20), items)
    catalogue.publish(line, catalogue.entries(set(dataset.items.tolist()), dataset.described))


def _start_broker(stack: ExitStack, settings: Settings) -> Settings:
    """Start or check the broker, create the topics, and return the settings that name them."""
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
    say(f"Kafka at {broker.bootstrap} ({broker.kind}); topics {prefix}.*")
    return settings


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
                {
                    "MURMUREC_PRIVACY_MODE": settings.privacy_mode,
                    "MURMUREC_CAMPAIGN_KEYS": "",  # a campaign of the demo has keys of its own
                    "MURMUREC_CAMPAIGN_SCOPE": "",
                    "MURMUREC_CAMPAIGN_NOTICE_SECONDS": "0",
                },
            )
        )
        worker.wait_until_ready()
    return worker
