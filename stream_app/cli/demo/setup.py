"""Set up a demo: broker, topics, worker, devices, and the public titles."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from producers import catalogue as titles
from producers.datasets import load as datasets
from producers.fleet.population import Population, populate
from producers.journal import Journal
from producers.publishing import Publisher
from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.worker import Worker
from stream_app.cli.demo.worker import running as worker_running
from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka import topic_admin as topic_table
from stream_app.kafka.clients import Connection
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.wire import Topics


@dataclass(frozen=True, eq=False)
class DemoSetup:
    """Everything that was set up before the first rating is sent."""

    console: Console
    settings: Settings
    topics: Topics
    bootstrap: str
    worker: Worker
    dataset: datasets.Dataset
    population: Population
    mechanism: Mechanism
    journal: Journal
    folder: Path

    @property
    def connection(self) -> Connection:
        """The connection to the broker of the demo."""
        return Connection(self.bootstrap, self.settings.kafka)

    @property
    def deployment(self) -> Deployment:
        """The deployment of the demo."""
        return Deployment(self.connection, self.topics, spec_from_settings(self.settings))


def prepare(
    stack: ExitStack,
    console: Console,
    settings: Settings,
    dataset: datasets.Dataset,
    mechanism: Mechanism,
) -> DemoSetup:
    """Start the broker and the worker, create the topics, make the devices."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="murmurec-demo-")))
    own = settings.bootstrap_servers is None
    configured = None if own else Connection(settings.servers, settings.kafka)
    # On a broker of the user the demo uses topics of its own and removes them.
    prefix = settings.topic_prefix if own else f"murmurec-demo-{secrets.token_hex(4)}"
    with console.status("starting Apache Kafka"):
        broker = stack.enter_context(
            broker_running(
                None,
                settings.cache_dir,
                configured=configured,
                tell=console.print,
            )
        )
    topics = Topics(prefix)
    settings = settings.model_copy(
        update={
            "bootstrap_servers": broker.bootstrap,
            "topic_prefix": prefix,
            "mechanisms": (mechanism.id,),
        }
    )
    admin = clients.admin(Connection(broker.bootstrap, settings.kafka))
    table = topics.table(settings.partitions, settings.ratings_retention_seconds)
    topic_table.create(admin, table)
    if not own:
        stack.callback(topic_table.delete, admin, [topic.name for topic in table])
    console.print(f"Kafka at {broker.bootstrap} ({broker.kind}); topics {prefix}.*")
    arguments = ["--bootstrap", broker.bootstrap, "--prefix", prefix, "--allow", mechanism.id]
    arguments += [
        "--index",
        settings.index,
        "--model",
        settings.model,
        "--group",
        f"{prefix}-worker",
    ]
    with console.status(
        "starting the worker (the first start compiles its kernels: about a minute)"
    ):
        warm_up(spec_from_settings(settings), settings.index, settings.code_bits)
        worker = stack.enter_context(worker_running(arguments, free_ports(1)[0], folder))
        worker.wait_until_ready()
    journal = stack.enter_context(Journal.open(folder / "device.journal"))
    with console.status(f"making a device for every user of {dataset.name}"):
        population = populate(dataset, journal.key)
    stage = DemoSetup(
        console,
        settings,
        topics,
        broker.bootstrap,
        worker,
        dataset,
        population,
        mechanism,
        journal,
        folder,
    )
    _publish_titles(stage)
    return stage


def _publish_titles(stage: DemoSetup) -> None:
    """Publish the titles of the items."""
    line = Publisher(clients.producer(stage.connection, linger_ms=20), stage.topics.items)
    titles.publish(line, titles.entries(set(stage.dataset.items.tolist()), stage.dataset.titles))
