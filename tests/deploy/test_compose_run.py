"""Every service of `compose.yaml` but Grafana runs from the file's own words, and is healthy.

Only the images are not the real ones (`containers.py`): entry points, commands, environment,
secrets, rights at Kafka, users and read-only roots are those of the file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_app import kernels
from stream_app.broker import KAFKA_VERSION, local
from stream_app.broker.jars import jars
from tests.conftest import cache_dir
from tests.deploy.containers import (
    DEPLOY,
    SERVICES,
    Image,
    Machine,
    kafka_image,
    machine,
    own_image,
)
from tests.faults.brokers import NoMountError
from tests.fixtures.programs import program
from tests.fixtures.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Give a machine on which nothing runs yet, with secrets as the script draws them."""
    program("prometheus", package="prometheus")
    program("ip", package="iproute2")
    program("mvn", package="maven")
    folder = tmp_path_factory.mktemp("compose")
    shutil.copy(DEPLOY / "compose-secrets.sh", folder)
    subprocess.run(["sh", folder / "compose-secrets.sh"], check=True, capture_output=True)
    tools = folder / "tools"
    artifact = f"-Dartifact=org.apache.kafka:kafka-tools:{KAFKA_VERSION}"
    subprocess.run(
        ["mvn", "-B", "-q", "dependency:copy", artifact, f"-DoutputDirectory={tools}"],
        check=True,
        capture_output=True,
    )
    own = own_image()
    prometheus = Image({}, entrypoint=("/usr/bin/prometheus",))
    images = dict.fromkeys(("setup", "worker", "gateway", "devices"), own)
    images |= {"kafka": kafka_image(jars(cache_dir(), local.to_stderr), tools)}
    # The image holds compiled kernels, and a new volume starts with them.
    compiled = Path(kernels.config.CACHE_DIR)
    compiled.mkdir(parents=True, exist_ok=True)
    shutil.copytree(compiled, folder / "volumes" / "worker-cache" / "kernels" / compiled.name)
    try:
        with machine(folder, images | {"prometheus": prometheus}) as made:
            yield made
    except NoMountError as error:
        pytest.skip(f"no network namespace may be made here: {error}")


def test_every_service_starts_in_its_order_and_is_healthy(deployed: Machine) -> None:
    def healthy(service: str) -> Callable[[], bool]:
        process = deployed.start(service)

        def look() -> bool:
            assert process.poll() is None, deployed.log(service)
            return deployed.healthy(service)

        return look

    until(healthy("kafka"), "Kafka is healthy", pause=0.5)
    assert deployed.start("setup").wait(120) == 0, deployed.log("setup")
    for service in ("gateway", "worker", "prometheus"):
        until(healthy(service), f"{service} is healthy", seconds=300, pause=0.5)
    deployed.start("devices")
    count = "import urllib.request as u; print(u.urlopen('http://{}').read().decode())"
    query = "prometheus:9090/api/v1/query?query=sum(murmurec_ratings_total)"

    def learned() -> bool:
        assert deployed.processes["devices"].poll() is None, deployed.log("devices")
        _, said = deployed.run("gateway", "python", "-c", count.format(query))
        result = json.loads(said)["data"]["result"]
        return bool(result) and float(result[0]["value"][1]) > 100

    until(learned, "Prometheus sees what the worker learned", pause=1)


def test_a_service_writes_no_root_has_no_capability_and_ends_within_its_grace(
    deployed: Machine,
) -> None:
    looks = (
        "cat /proc/self/status /proc/self/mounts; "
        "touch /var/lib/murmurec/x && touch /etc/x /opt/murmurec/x"
    )
    code, said = deployed.run("worker", "sh", "-c", looks)
    assert code != 0
    assert said.count("cannot touch") == 2
    lines = ("CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t10001", " / tmpfs ro,")
    for line in lines:
        assert line in said
    for service in ("worker", "gateway"):
        process = deployed.processes[service]
        process.terminate()
        grace = int(SERVICES[service]["stop_grace_period"].removesuffix("s"))
        assert process.wait(grace) == 0, deployed.log(service)
