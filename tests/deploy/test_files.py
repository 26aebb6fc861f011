"""What is deployed parses, refers to files that exist, pins what it pulls, stays on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

import producers.datasets.load
import producers.scale
import stream_app
from stream_app.settings import Settings
from tests.fixtures.programs import program
from tests.murmurec.test_wheel import needed

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
OWN_IMAGES = {"server": "murmurec", "device": "murmurec-device"}


def load(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


COMPOSE = load("compose.yaml")
SERVICES = COMPOSE["services"]
EVERY_SERVICE = pytest.mark.parametrize("service", SERVICES)


def is_pinned(image: str) -> bool:
    """Return whether an image names an exact version: three numbers, or a digest."""
    return bool(re.search(r":v?\d+\.\d+\.\d+(-[a-z0-9.-]+)?$|@sha256:[0-9a-f]{64}$", image))


# --- compose ----------------------------------------------------------------------------------


@EVERY_SERVICE
def test_images_are_pinned(service: str) -> None:
    assert is_pinned(SERVICES[service]["image"])


@pytest.mark.parametrize("image", ["grafana/grafana", "grafana/grafana:latest", "python:3.11-slim"])
def test_a_moving_tag_is_not_a_pin(image: str) -> None:
    assert not is_pinned(image)


@EVERY_SERVICE
def test_ports_are_published_on_loopback_only(service: str) -> None:
    for port in SERVICES[service].get("ports", ()):
        assert isinstance(port, str)
        assert port.startswith("127.0.0.1:")
        assert port.count(":") == 2


@EVERY_SERVICE
def test_no_service_may_gain_rights(service: str) -> None:
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES[service]["read_only"] is True
    assert not SERVICES[service].get("privileged")
    assert str(SERVICES[service].get("user", "1")).split(":")[0] not in ("0", "root")


@EVERY_SERVICE
def test_what_runs_on_has_a_health_check_and_what_ends_does_not_start_again(service: str) -> None:
    ends = service in ("setup", "devices")
    assert ("healthcheck" in SERVICES[service]) != ends
    assert (SERVICES[service]["restart"] == "unless-stopped") != ends


@EVERY_SERVICE
def test_memory_processors_and_processes_are_bounded(service: str) -> None:
    assert {"mem_limit", "cpus", "pids_limit"} <= SERVICES[service].keys()


@EVERY_SERVICE
def test_volumes_are_named_or_exist(service: str) -> None:
    for volume in SERVICES[service].get("volumes", ()):
        source, _, rest = volume.partition(":")
        if source.startswith("."):
            assert (DEPLOY / source).exists()
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@EVERY_SERVICE
def test_a_service_waits_for_services_that_exist(service: str) -> None:
    for other, wait in SERVICES[service].get("depends_on", {}).items():
        healthy = wait["condition"] == "service_healthy"
        assert healthy == ("healthcheck" in SERVICES[other])


def settings_of(service: str, caller: dict[str, str]) -> Settings:
    """Return the settings of a service where the caller has this environment."""

    def interpolated(text: str) -> str:
        assert "$" not in (rest := re.sub(r"\$\{[A-Z_]+:?-[^}]*\}", "", text)), rest
        return re.sub(r"\$\{([A-Z_]+)(:?)-([^}]*)\}", lambda m: given(*m.groups()), text)

    def given(name: str, colon: str, default: str) -> str:
        value = caller.get(name, default)
        return value or default if colon else value

    environment = SERVICES[service].get("environment", {})
    assert all(isinstance(value, str) for value in environment.values())
    return Settings(
        **{
            name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower(): interpolated(value)
            for name, value in environment.items()
            if name.startswith("MURMUREC_") and name != "MURMUREC_CONFIG"
        }
    )


def test_names_of_hosts_come_from_the_caller_and_secrets_from_files_of_the_role_alone() -> None:
    caller = {"MURMUREC_ADMIN_HOSTS": "worker.example.org"}
    assert settings_of("worker", caller).admin_hosts == ("worker", "worker.example.org")
    assert settings_of("worker", {}).admin_hosts == ("worker",)
    assert settings_of("worker", {}).state_secret_file == Path("/run/secrets/state-secret")
    for service in ("setup", "worker", "gateway", "devices"):
        role = {"setup": "admin", "devices": "device"}.get(service, service)
        listed, found = SERVICES[service]["secrets"], SERVICES[service]["environment"]
        assert found["MURMUREC_CONFIG"] == f"/run/secrets/{role}.toml"
        more = ["state-secret"] if service == "worker" else []
        assert listed == [f"{role}.toml", *more]


def test_our_own_images_carry_our_version_and_are_stages_of_the_dockerfile() -> None:
    own = [service for service in SERVICES.values() if "build" in service]
    assert {each["build"]["target"] for each in own} == OWN_IMAGES.keys()
    for service in own:
        target = service["build"]["target"]
        assert service["image"] == f"{OWN_IMAGES[target]}:{stream_app.__version__}"
        assert re.search(rf"^FROM runtime AS {target}$", DOCKERFILE, re.M)
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        assert (DEPLOY / service["build"]["context"]).resolve() == ROOT


def test_the_cluster_id_is_a_uuid_in_base64url() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", SERVICES["kafka"]["environment"]["CLUSTER_ID"])


def test_kafka_is_known_inside_by_name_and_outside_by_loopback_and_asks_for_a_password() -> None:
    text = (DEPLOY / "kafka" / "server.properties").read_text(encoding="utf-8")
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    advertised = found["advertised.listeners"].split(",")
    assert "HOST://127.0.0.1:9092" in advertised
    inside = SERVICES["worker"]["environment"]["MURMUREC_BOOTSTRAP_SERVERS"]
    assert f"BROKER://{inside}" in advertised
    assert found["auto.create.topics.enable"] == "false"
    protocols = found["listener.security.protocol.map"].split(",")
    assert {each.partition(":")[2] for each in protocols} == {"SASL_PLAINTEXT"}
    assert found["super.users"] == "User:admin"
    assert "allow.everyone.if.no.acl.found" not in found


def test_the_made_up_population_is_a_file_that_replay_reads(tmp_path: Path) -> None:
    (script,) = SERVICES["devices"]["command"]
    made = re.search(r"python -c '(.*?)'", script, re.S)
    assert made
    data = tmp_path / "world.npz"
    snapshot = "/var/lib/murmurec/world.npz"
    assert f"murmurec replay {snapshot} --speed" in script
    program = made[1].replace(snapshot, str(data))
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True)
    dataset = producers.datasets.load.load(data)
    assert len(dataset) > 100_000
    assert dataset.refused == 0
    assert str(dataset.scale) == str(producers.scale.Scale(1, 5, 1))


# --- the image --------------------------------------------------------------------------------


def copied() -> list[str]:
    """Return what the Dockerfile copies from the repository."""
    return [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M)
        for source in line.split()[:-1]
    ]


def test_the_dockerfile_copies_files_that_exist_and_that_the_build_may_see() -> None:
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    assert len(copied()) >= 8
    for source in copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in allowed


def test_every_stage_starts_from_a_pinned_image() -> None:
    images = [line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")]
    assert len(images) == 6
    assert all(is_pinned(image) or image == "runtime" for image in images)


def test_the_image_is_not_root_and_keeps_no_installer() -> None:
    last = DOCKERFILE.partition("\nFROM python:3.11.13-slim-bookworm AS runtime")[2]
    user = re.findall(r"^USER (\S+)$", last, re.M)
    assert user == ["10001:10001"]
    assert "pip uninstall --yes pip setuptools wheel" in last
    assert not re.search(r"apt-get|pip install|gcc|build-essential", last)


def test_the_image_starts_with_compiled_kernels_in_a_volume_that_its_user_may_write() -> None:
    base, server = DOCKERFILE.partition(" AS runtime")[2].split("\nFROM runtime AS device")
    last = base + server.partition("\nFROM runtime AS server")[2]
    assert "NUMBA_CACHE_DIR" not in DOCKERFILE  # it would be one folder for every version
    steps = [
        "XDG_CACHE_HOME=/var/cache",
        "USER ",
        "RUN murmurec worker --warmup",
        "VOLUME",
    ]
    places = [last.index(step) for step in steps]
    assert places == sorted(places)
    assert "/var/cache/murmurec" in re.findall(r"^VOLUME (.+)$", last, re.M)[-1]


def test_the_image_installs_by_hash_and_wheels_only() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install [^&\n]*", DOCKERFILE.replace("\\\n", ""))
    from_index = [install for install in installs if "--no-index" not in install]
    assert len(from_index) == 3
    assert all("--require-hashes" in i and "--only-binary :all:" in i for i in from_index)


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_every_locked_package_is_exact_and_hashed_and_names_no_index(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    packages = [line for line in lines if not line.startswith(" ")]
    assert packages
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)? \\", line) for line in packages)
    assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", x) for x in lines if x[0] == " ")
    assert "://" not in text


def test_the_lock_holds_every_dependency_of_a_worker() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lists = (
        re.search(rf"^{name} = \[(.*?)^\]", project, re.M | re.S)
        for name in ("dependencies", "gateway", "server")
    )
    named = re.findall(r'"([a-z0-9-]+)[\[>=]', "".join(found[1] for found in lists if found))
    locked = set(re.findall(r"^([a-z0-9-]+)==", (DEPLOY / "requirements.lock").read_text(), re.M))
    assert len(named) > 16
    assert set(named) - {"murmurec"} <= locked


def test_the_lock_of_a_device_is_what_the_wheel_needs_and_no_learner() -> None:
    """The part of the lock that the Dockerfile cuts out, against what is installed here."""
    script = (DEPLOY / "part_of_lock.awk", DEPLOY / "device-packages.txt")
    cut = subprocess.run(
        ["awk", "-f", *script, DEPLOY / "requirements.lock"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, metadata.Distribution] = {}
    own = metadata.distribution("murmurec")
    needed(own, "murmurec", frozenset(), found)
    wanted = {re.sub(r"[-_.]+", "-", name) for name in found}
    assert set(re.findall(r"^([a-z0-9-]+)==", cut, re.M)) == wanted
    assert set(script[1].read_text(encoding="utf-8").split()) == wanted
    assert not wanted & {"numba", "faust-streaming", "aiokafka", "aiohttp"}
    assert all(line.startswith(" ") or "==" in line for line in cut.splitlines())


# --- prometheus and grafana -------------------------------------------------------------------


def test_prometheus_scrapes_the_worker_where_it_listens() -> None:
    jobs = {job["job_name"]: job for job in load("prometheus.yml")["scrape_configs"]}
    port = SERVICES["worker"]["environment"]["MURMUREC_ADMIN_PORT"]
    assert jobs["murmurec"]["static_configs"] == [{"targets": [f"worker:{port}"]}]
    assert jobs["murmurec"]["metrics_path"] == "/metrics"
    assert "worker" in SERVICES


def test_the_gateway_is_scraped_where_it_listens_and_waits_for_no_worker() -> None:
    jobs = {job["job_name"]: job for job in load("prometheus.yml")["scrape_configs"]}
    found = settings_of("gateway", {})
    assert jobs["murmurec-gateway"]["static_configs"] == [
        {"targets": [f"gateway:{found.gateway_port}"]}
    ]
    assert "gateway" in found.gateway_hosts
    assert found.gateway_worker == "http://worker:" + str(settings_of("worker", {}).admin_port)
    assert found.gateway_grafana == "http://" + SERVICES["grafana"]["ports"][0].rpartition(":")[0]
    assert settings_of("gateway", {"MURMUREC_GATEWAY_GRAFANA": ""}).gateway_grafana is None
    assert found.mechanisms == settings_of("worker", {}).mechanisms
    assert f"127.0.0.1:{found.gateway_port}:{found.gateway_port}" in SERVICES["gateway"]["ports"]
    assert set(SERVICES["gateway"]["depends_on"]) == {"setup"}
    assert "volumes" not in SERVICES["gateway"]  # it keeps nothing


def test_prometheus_accepts_its_configuration() -> None:
    promtool = program("promtool", package="prometheus")
    checked = subprocess.run(
        [promtool, "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_grafana_finds_its_data_source_and_its_dashboards_where_compose_puts_them() -> None:
    (source,) = load("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in SERVICES
    (provider,) = load("grafana/provisioning/dashboards/murmurec.yaml")["providers"]
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(provider["options"]["path"])
    assert (DEPLOY / "grafana/dashboards" / Path(home).name).exists()


def test_the_data_source_knows_the_scrape_interval() -> None:
    (source,) = load("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["jsonData"]["timeInterval"] == load("prometheus.yml")["global"]["scrape_interval"]


def test_grafana_has_no_account_and_only_lets_look() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"


def test_the_page_for_operators_names_every_file() -> None:
    page = (DEPLOY.parent / "docs" / "operate.md").read_text(encoding="utf-8")
    files = [
        *("compose.yaml", "compose-secrets.sh", "Dockerfile", "requirements.lock", "kubernetes/"),
        *("systemd/", "prometheus.yml", "grafana/", "manifests.py"),
    ]
    for name in files:
        assert (DEPLOY / name).exists()
        assert f"`{name}`" in page
    assert "Not run:" in page
