"""Chooses the broker of a demo or a test run: the configured one, a local one, or a container.

They are tried in that order. Kafka has no substitute: if none of the three is available, the error
names the reason for each.

Runs a Kafka node in a container, if an engine such as Docker or Podman is available.

The host's port is chosen before the start, because a broker must know its advertised address.
testcontainers' Kafka class runs another distribution, so this is a plain container with Apache
Kafka's image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stream_app.broker import KAFKA_VERSION, Broker, local
from stream_app.broker.jars import Notify
from stream_app.broker.local import ONE_NODE, cluster_id, free_ports, is_ready, to_stderr
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection


@contextmanager
def running(
    data_dir: Path | None,
    cache_dir: Path,
    *,
    configured: Connection | None = None,
    notify: Notify = to_stderr,
) -> Iterator[Broker]:
    """Yield a broker for the duration of the block; raises `UserError` if none is available.

    `configured` takes precedence and is only checked. Without `data_dir`, the data of a started
    broker is deleted afterwards.
    """
    if configured:
        clients.describe_cluster(configured)
        yield Broker(configured.bootstrap, "configured")
        return
    with ExitStack() as stack:
        # Entered before the yield, so that a UserError raised in the block is not caught.
        broker = _first(stack, data_dir, cache_dir, notify)
        yield broker


def _first(stack: ExitStack, data_dir: Path | None, cache_dir: Path, notify: Notify) -> Broker:
    missing: list[str] = []
    try:
        return stack.enter_context(local.run(data_dir, cache_dir, None, notify=notify))
    except UserError as refusal:
        missing.append(f"a local Kafka ({refusal})")
    try:
        return stack.enter_context(run_container(notify))
    except UserError as refusal:
        missing.append(f"a container ({refusal})")
    raise UserError(
        "no Kafka is available: tried the configured servers (MURMUREC_BOOTSTRAP_SERVERS is "
        f"not set), then {', then '.join(missing)}"
    )


IMAGE = f"apache/kafka:{KAFKA_VERSION}"
READY_SECONDS = 120.0
_INSIDE = 9092


def environment(port: int, cluster: str) -> Mapping[str, str]:
    """Return the container's environment for clients at the host's `localhost:port`."""
    own = {
        "listeners": f"CONTROLLER://:29093,HOST://:{_INSIDE},BROKER://:19092",
        "advertised.listeners": f"HOST://localhost:{port},BROKER://localhost:19092",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,HOST:PLAINTEXT,BROKER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.quorum.voters": "1@localhost:29093",
    }
    named = {f"KAFKA_{name.upper().replace('.', '_')}": v for name, v in (ONE_NODE | own).items()}
    return {"CLUSTER_ID": cluster, **named}


@contextmanager
def run_container(notify: Notify = to_stderr) -> Iterator[Broker]:
    """Run a broker in a container for the duration of the block; its data is deleted afterwards."""
    try:
        from docker.errors import DockerException
        from testcontainers.core.container import DockerContainer
    except ImportError:
        raise UserError("testcontainers is not installed: pip install testcontainers") from None
    place = free_ports(1)[0]
    notify(f"Starting {IMAGE} in a container (the image is fetched once) ...")
    try:
        container = DockerContainer(IMAGE).with_bind_ports(_INSIDE, place)
        for name, value in environment(place, cluster_id()).items():
            container = container.with_env(name, value)
        container.start()
    except (DockerException, OSError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"no container engine answers or it could not start: {reason}") from None
    try:
        broker = Broker(f"localhost:{place}", "container")
        if not is_ready(broker, READY_SECONDS):
            raise UserError(f"Kafka in its container was not ready after {READY_SECONDS:.0f} s")
        yield broker
    finally:
        container.stop()
