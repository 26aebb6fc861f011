"""Java and Kafka's jars, with small programs of our own as `java` and `mvn`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stream_app.broker.jars import jars, java
from stream_app.errors import UserError

# What Maven does here: fill lib/ in the folder it was called in, and count its calls.
FETCHES = 'echo called >> "$0.calls"\nmkdir lib\ntouch lib/kafka_2.13-4.3.1.jar\n'


@pytest.fixture
def programs(tmp_path):
    """Write programs into a folder that can serve as a PATH; return that folder."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def write(**scripts):
        for name, script in scripts.items():
            program = folder / name
            program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}")
            program.chmod(0o755)
        return str(folder)

    return write


def test_without_java_the_sentence_names_what_to_install(programs):
    with pytest.raises(UserError, match=r"no java on the PATH: .* Java 17 or later \(Debian"):
        java(programs())


@pytest.mark.parametrize(
    ("version", "expected"), [("11.0.2", "is Java 11"), ("1.8.0_392", "is Java 8")]
)
def test_an_old_java_is_refused_with_its_version(programs, version, expected):
    with pytest.raises(UserError, match=f"{expected}: Kafka 4.3.1 needs Java 17"):
        java(programs(java=f"echo 'openjdk version \"{version}\"' >&2"))


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "25"])
def test_a_java_that_is_new_enough_is_taken(programs, version):
    path = programs(java=f"echo 'openjdk version \"{version}\"' >&2")
    assert java(path) == f"{path}/java"


def test_a_java_that_names_no_version_is_refused(programs):
    with pytest.raises(UserError, match="does not name a version"):
        java(programs(java="echo no JVM here; exit 1"))


def test_without_maven_the_sentence_names_what_to_install(programs, tmp_path):
    with pytest.raises(UserError, match=r"no mvn on the PATH: .*apt-get install maven"):
        jars(tmp_path / "cache", print, programs())


def test_the_jars_are_fetched_once_and_the_wait_is_announced(programs, tmp_path):
    path, announced = programs(mvn=FETCHES), []
    place = jars(tmp_path / "cache", announced.append, path)
    assert [jar.name for jar in place.iterdir()] == ["kafka_2.13-4.3.1.jar"]
    assert announced[0].startswith("Fetching Apache Kafka 4.3.1 with Maven into")
    assert jars(tmp_path / "cache", announced.append, path) == place
    assert len((tmp_path / "bin" / "mvn.calls").read_text().split()) == 1


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "[ERROR] Failed to execute goal: repo.maven.apache.org: Unknown host repo.maven.org",
            "Unknown host repo.maven.org",
        ),
        (
            "[ERROR] Plugin x:1: Cannot access central (https://a.b) in offline mode",
            "offline mode",
        ),
        ("[ERROR] something new", "something new"),
        ("", "it ended without an error message"),
    ],
    ids=["host", "offline", "new", "silent"],
)
def test_a_failing_maven_is_one_sentence_and_leaves_nothing(programs, tmp_path, output, expected):
    cache = tmp_path / "cache"
    path = programs(mvn=f"echo '{output}'\nmkdir lib\ntouch lib/kafka_2.13-4.3.1.jar\nexit 1\n")
    with pytest.raises(UserError) as refused:
        jars(cache, print, path)
    assert "Maven could not fetch Kafka's jars: " in str(refused.value)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [p.name for p in cache.iterdir()] == ["kafka-4.3.1.lock"]
    assert jars(cache, print, programs(mvn=FETCHES)).is_dir()


def test_a_maven_that_succeeds_without_kafka_is_refused(programs, tmp_path):
    with pytest.raises(UserError, match="could not fetch"):
        jars(tmp_path / "cache", print, programs(mvn="mkdir lib\ntouch lib/other.jar\n"))


def test_processes_that_ask_at_once_fetch_once(programs, tmp_path):
    path = programs(mvn="sleep 0.3\n" + FETCHES)
    ask = (
        "import sys, pathlib; from stream_app.broker.jars import jars; "
        "place = jars(pathlib.Path(sys.argv[1]), lambda line: None, sys.argv[2]); "
        "print(len(list(place.iterdir())))"
    )
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ask, str(tmp_path / "cache"), path], stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=300)[0].strip() for process in asking] == [b"1"] * 3
    assert len((tmp_path / "bin" / "mvn.calls").read_text().split()) == 1


def test_a_cache_folder_that_cannot_be_written_is_one_sentence(programs, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written .*MURMUREC_TUNING_CACHE_DIR"):
        jars(tmp_path / "file" / "cache", print, programs(mvn=FETCHES))
