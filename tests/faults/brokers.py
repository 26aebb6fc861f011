"""Kafka nodes that a test may kill, start again where they were, fill up and guard.

    home/log           what was published; stays over a restart on the same port
    bootstrap          a listener without passwords: an anonymous client, which may do everything
    mutual, encrypted  listeners with TLS, where keys are given: one asks for a certificate, the
                       other for the password
    guarded            a listener that asks for a user name and a password; its client may do what
                       `allow` allowed, and nothing else

A small disk is a tmpfs in a mount namespace of a process that the kernel ends with this one: it is
reached through /proc, and nothing is left mounted, whatever becomes of the test run.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from stream_app.broker import local
from stream_app.broker.jars import jars, java
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from tests.conftest import cache_dir
from tests.fixtures.waiting import PATIENCE_SECONDS, until

USER = "worker"
PASSWORD = "as-secret-as-a-test"
_PAGE_BYTES = 4096  # of a tmpfs
# A node that was killed is taken for dead after this time, and may register again.
_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


class Node:
    """One Kafka node on ports and in a folder of its own, not running at first."""

    def __init__(
        self, home: Path, overrides: Mapping[str, str] | None = None, keys: Path | None = None
    ) -> None:
        self.home = home
        ports = local.free_ports(5)
        self.port, self._controller = ports[0], ports[2]
        self.bootstrap, self.guarded, _, self.mutual, self.encrypted = (
            f"127.0.0.1:{port}" for port in ports
        )
        listeners = (
            f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.guarded},"
            f"CONTROLLER://127.0.0.1:{self._controller}"
        )
        if keys is not None:
            listeners += f",SSL://{self.mutual},SASL_SSL://{self.encrypted}"
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self._overrides = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{login} user_{USER}="{PASSWORD}";'
            ),
            **({} if keys is None else _tls(keys, login)),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:CN={USER}"
            + ("" if keys is None else f";User:{USER}"),
            **_SESSION,
            **(overrides or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process of the node lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the node and return when it answers; one that runs already goes on."""
        if self.running:
            self.thaw()
        else:
            self._process, _ = local.launch_ready(
                java(),
                jars(cache_dir(), local.to_stderr),
                self.home,
                self.port,
                self._overrides,
                leash=True,
            )

    def kill(self) -> None:
        """End the node as a power cut would, but for what the kernel still writes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(local.STOP_SECONDS)

    def freeze(self) -> None:
        """Stop the node as it is: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen node go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ended(self, seconds: float) -> bool:
        """Return whether the node ends by itself within so many seconds."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.running

    def allow(self, kind: ResourceType, name: str, *operations: str) -> None:
        """Let the user do this with what has that name, or with what begins with `name*`."""
        pattern = (
            ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        )
        self.grant(
            [
                AclBinding(
                    kind,
                    name.removesuffix("*"),
                    pattern,
                    f"User:{USER}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )
                for operation in operations
            ]
        )

    def grant(self, bindings: Sequence[AclBinding]) -> None:
        """Give these rights, and return when the broker goes by them."""
        admin = clients.admin(Connection(self.bootstrap))  # kept: what it was asked ends with it
        for future in admin.create_acls(list(bindings)).values():
            future.result(timeout=PATIENCE_SECONDS)
        until(lambda: set(bindings) <= set(self.every_right()), "the rights are there")

    def take(self, kind: ResourceType, name: str, operation: str) -> list[AclBinding]:
        """Take a right away, and return what gives it back when the broker goes by it."""
        taken = [
            right
            for right in self.every_right()
            if (right.restype, right.name, right.operation) == (kind, name, AclOperation[operation])
        ]
        assert taken, f"no client has the right to {operation} {name}"
        admin = clients.admin(Connection(self.bootstrap))
        filters = [
            AclBindingFilter(
                right.restype,
                right.name,
                right.resource_pattern_type,
                right.principal,
                right.host,
                right.operation,
                right.permission_type,
            )
            for right in taken
        ]
        for future in admin.delete_acls(filters).values():
            future.result(timeout=PATIENCE_SECONDS)
        until(lambda: not set(taken) & set(self.every_right()), "the rights are gone")
        return taken

    def every_right(self) -> list[AclBinding]:
        """Return every right that the broker goes by."""
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin = clients.admin(Connection(self.bootstrap))
        found: list[AclBinding] = admin.describe_acls(everything).result(timeout=PATIENCE_SECONDS)
        return found


def _tls(keys: Path, login: str) -> dict[str, str]:
    """Return the configuration of the listeners with TLS; `keys` as `certificates` leaves it."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(keys / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
    }


def certificates(keys: Path) -> Path:
    """Write an authority, the key store of a broker, and certificate and encrypted key of the
    user; return the folder."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=keys)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    openssl(
        *("req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=authority", *curve),
        *("-out", "ca.crt", "-keyout", "ca.key"),
    )
    for name, subject in (("broker", "127.0.0.1"), ("user", USER)):
        openssl(
            *("req", "-nodes", "-subj", f"/CN={subject}", *curve),
            *("-out", f"{name}.csr", "-keyout", f"{name}.key"),
        )
        (keys / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(
            *("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-out", f"{name}.crt"),
            *("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"),
        )
    parts = ("broker.key", "broker.crt", "ca.crt")
    (keys / "broker.pem").write_text("".join((keys / part).read_text() for part in parts))
    openssl(
        *("pkcs8", "-topk8", "-in", "user.key", "-out", "user.encrypted.key"),
        *("-passout", f"pass:{PASSWORD}"),
    )
    return keys


def password() -> dict[str, str]:
    """Return the client properties of the user of the guarded listener."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


@contextmanager
def node(
    home: Path, overrides: Mapping[str, str] | None = None, keys: Path | None = None
) -> Iterator[Node]:
    """Run a node for the length of the block; a test that kills it starts it again."""
    made = Node(home, overrides, keys)
    try:
        made.start()
        yield made
    finally:
        made.kill()


# --- a disk that can be full ----------------------------------------------------------------------


class NoMountError(Exception):
    """This process may not mount a file system."""


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[Path]:
    """Give the root of an empty tmpfs of this size; raises NoMountError where that is forbidden."""
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" && echo mounted && exec cat'
    options = f"size={size}" + (f",nr_inodes={inodes}" if inodes else "")
    unshare = ["/usr/bin/env", "unshare", "--mount", "--propagation", "private"]
    keeper = subprocess.Popen(
        local.leashed([*unshare, "sh", "-c", script, "sh", options, str(folder)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        readable, _, _ = select.select([keeper.stdout], [], [], PATIENCE_SECONDS)
        if not readable or keeper.stdout.readline() != b"mounted\n":
            keeper.kill()
            raise NoMountError(keeper.stderr.read().decode().strip() or "mount gave no answer")
        yield Path(f"/proc/{keeper.pid}/root{folder}")
    finally:
        keeper.kill()
        keeper.wait()
        for pipe in (keeper.stdin, keeper.stdout, keeper.stderr):
            if pipe is not None:
                pipe.close()


def fill(disk: Path) -> Path:
    """Write a file that takes all room of a disk; delete it to make room.

    The file grows until the disk refuses one more page: how much is free changes while a broker
    writes to the same disk.
    """
    ballast = disk / "ballast"
    size, step = 0, 1 << 20
    with ballast.open("wb") as file:
        while step >= _PAGE_BYTES:
            try:
                os.posix_fallocate(file.fileno(), size, step)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
            else:
                size += step
    return ballast
