"""What the device image installs enrols, publishes, follows a file and replays; no learner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Kafka
from tests.deploy.containers import SERVICES
from tests.deploy.test_commands import of_images
from tests.fixtures.waiting import until
from tests.murmurec.test_wheel import installed, wheel

__all__ = ["wheel"]  # a fixture
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.fixture
def device(
    wheel: Path, tmp_path: Path, kafka: Kafka, topics: str
) -> Callable[..., subprocess.Popen[str]]:
    """Give a function that runs a command of an environment with the packages of the image."""
    python = installed(wheel, tmp_path / "env", frozenset())
    lacks = "import importlib.util as u; print([n for n in ('numba', 'faust') if u.find_spec(n)])"
    assert subprocess.check_output([python, "-I", "-c", lacks], text=True) == "[]\n"
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "MURMUREC_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "MURMUREC_TOPIC_PREFIX": topics,
        "MURMUREC_DATA_DIR": str(tmp_path),
    }

    def run(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return run


def done(process: subprocess.Popen[str]) -> str:
    """Return what a command printed; it ended well."""
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def test_a_device_enrols_publishes_and_follows_a_file_until_it_is_stopped(
    device: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """`device run` with the words of the image's own command, but for the folder."""
    (words,) = [line.words for line in of_images() if line.words[0] == "device"]
    ratings = tmp_path / "ratings.csv"
    done(device("murmurec", "device", "enrol", "--user", "ann"))
    done(device("murmurec", "publish", "--user", "ann", "--item", "7", "--rating", "4"))
    ratings.write_text("ann,8,5\n", encoding="utf-8")
    at_home = (word.replace("/var/lib/murmurec", str(tmp_path)) for word in words)
    running = device("murmurec", *at_home)
    waits = ("murmurec", "device", "status", "--json")
    try:
        until(
            lambda: json.loads(done(device(*waits)))["ratings_kept"] == 2,
            "the line of the file is kept beside what was published",
            pause=0.5,
        )
    finally:
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said


def test_the_population_of_compose_is_made_and_replayed(
    device: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    shell = SERVICES["devices"]["entrypoint"]
    (script,) = SERVICES["devices"]["command"]
    script = script.replace("/var/lib/murmurec", str(tmp_path)).strip()
    said = done(device(*shell, f"{script} --limit 500"))
    assert "500" in said
