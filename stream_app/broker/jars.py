"""Apache Kafka's jars, fetched once by Maven into the user's cache, and the Java that runs them.

    CACHE/kafka-4.3.1/*.jar     46 jars, 44 MB, about ten seconds the first time

The folder is filled under a temporary name and renamed under a lock file: an existing folder is
complete, and two concurrent processes fetch once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from stream_app.broker import KAFKA_VERSION
from stream_app.errors import UserError

OLDEST_JAVA = 17
LOG4J_VERSION = "2.25.5"
FETCH_SECONDS = 600

Notify = Callable[[str], None]

# Kafka uses slf4j 1.7, so the binding is log4j-slf4j-impl and not log4j-slf4j2-impl.
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>murmurec</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>{LOG4J_VERSION}</version></dependency>
  </dependencies>
</project>
"""


def java(path: str | None = None) -> str:
    """Return the Java program, looked up on `path`; refuses a missing or too old one."""
    program = shutil.which("java", path=path)
    if program is None:
        raise UserError(
            f"no java on the PATH: a local Kafka needs Java {OLDEST_JAVA} or later "
            "(Debian: apt-get install openjdk-17-jre-headless)"
        )
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        raise UserError(
            f"{program} -version does not name a version: install Java {OLDEST_JAVA} or later"
        )
    if int(found[1]) < OLDEST_JAVA:
        raise UserError(
            f"{program} is Java {found[1]}: Kafka {KAFKA_VERSION} needs Java {OLDEST_JAVA} or later"
        )
    return program


def jars(cache_dir: Path, notify: Notify, path: str | None = None) -> Path:
    """Return the folder of Kafka's jars; Maven, looked up on `path`, fetches them if absent."""
    place = cache_dir / f"kafka-{KAFKA_VERSION}"
    if place.is_dir():
        return place
    lock = cache_dir / f"kafka-{KAFKA_VERSION}.lock"
    with locked(lock, "cache", "MURMUREC_TUNING_CACHE_DIR"):
        if not place.is_dir():
            _fetch(place, notify, path)
    return place


@contextmanager
def locked(path: Path, kind: str, variable: str) -> Iterator[None]:
    """Hold the lock of a folder of this kind, which the `variable` sets: one process at a time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise UserError(
            f"the {kind} folder {path.parent} cannot be written ({error.strerror}): "
            f"choose another with {variable}"
        ) from None
    with lock:
        lock_descriptor(lock.fileno())
        yield


def _fetch(place: Path, notify: Notify, path: str | None) -> None:
    maven = shutil.which("mvn", path=path)
    if maven is None:
        raise UserError(
            "no mvn on the PATH: Maven fetches Kafka's jars once (Debian: apt-get install maven)"
        )
    notify(f"Fetching Apache Kafka {KAFKA_VERSION} with Maven into {place} (44 MB, once) ...")
    # A sibling of the final place, so that the move is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=place.parent) as scratch:
        work = Path(scratch)
        (work / "pom.xml").write_text(_POM)
        command = [maven, "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        try:
            done = subprocess.run(
                command,
                cwd=work,
                capture_output=True,
                text=True,
                check=False,
                timeout=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"Maven did not fetch Kafka's jars within {FETCH_SECONDS} s: check the network"
            ) from None
        if done.returncode != 0 or not any((work / "lib").glob("kafka_2.13-*.jar")):
            raise UserError(
                f"Maven could not fetch Kafka's jars: {_reason(done.stdout + done.stderr)}; "
                "check the network or the mirror in ~/.m2/settings.xml"
            )
        (work / "lib").rename(place)
    notify("Fetched.")


def _reason(output: str) -> str:
    """Return Maven's first error, shortened to its cause if that is recognised."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    errors = re.findall(r"^\[ERROR\] (.+)$", plain, re.MULTILINE)
    text = errors[0] if errors else "it ended without an error message"
    known = re.search(
        r"(Unknown host [\w.-]+|Cannot access [^:]+ in offline mode"
        r"|Could not (?:find|transfer) artifact [\w.:-]+"
        r"|Connection (?:refused|timed out)|No space left on device)",
        plain,
    )
    return known[1] if known else text[:200].rstrip(". ")
