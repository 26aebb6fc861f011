"""A broker with TLS, SCRAM-SHA-512 and access control, and a user for each role.

A user has the name of its role, and the rights that `murmurec acl apply` grants. The administrator
has the listener without a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from stream_app.cli import run
from stream_app.kafka import acls, clients
from stream_app.kafka.clients import Connection
from tests.faults.brokers import PASSWORD, Node, certificates
from tests.fixtures import forks
from tests.fixtures.waiting import PATIENCE_SECONDS, until

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_OVERRIDES = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": _SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}


class Secured(Node):
    """The broker; `properties` are those of a client with a user's password."""

    def __init__(self, home: Path, keys: Path) -> None:
        super().__init__(home, _OVERRIDES, keys)
        self.keys = keys

    def properties(self, user: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.keys / "ca.crt"),
        }

    def connection(self, user: str) -> Connection:
        return Connection(self.encrypted, self.properties(user))

    def add_users(self, *users: str) -> None:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = clients.admin(Connection(self.bootstrap))
        made = [UserScramCredentialUpsertion(user, credential, PASSWORD.encode()) for user in users]
        for future in admin.alter_user_scram_credentials(made).values():
            future.result(timeout=PATIENCE_SECONDS)

    def rights(self, user: str) -> list[AclBinding]:
        """Return the rights of a user that the broker goes by."""
        return [each for each in self.every_right() if each.principal == f"User:{user}"]

    @contextmanager
    def without(self, taken: AclBinding) -> Iterator[None]:
        """Take a right away for the length of the block."""
        self.take_away(taken)
        try:
            yield
        finally:
            self.grant([taken])

    def take_away(self, *taken: AclBinding) -> None:
        """Take rights away."""
        admin = clients.admin(Connection(self.bootstrap))
        filters = [
            AclBindingFilter(
                *(right.restype, right.name, right.resource_pattern_type, right.principal),
                *(right.host, right.operation, right.permission_type),
            )
            for right in taken
        ]
        gone = [future.result(PATIENCE_SECONDS) for future in admin.delete_acls(filters).values()]
        assert sorted(right for each in gone for right in each) == sorted(taken)
        until(lambda: not set(taken) & set(self.every_right()), "the rights are gone")


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Run the broker for the length of the block, with a user for each role."""
    (folder / "keys").mkdir()
    made = Secured(folder / "broker", certificates(folder / "keys"))
    try:
        made.start()
        made.add_users(*acls.ROLES)
        yield made
    finally:
        made.kill()


@dataclass(frozen=True)
class Commands:
    """Runs commands of one deployment in this process, as the user of a role; `variables` are its
    settings in the environment."""

    broker: Secured
    prefix: str
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    settings: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)  # to a role's variables

    def variables(self, role: str) -> dict[str, str]:
        """Return the environment of a role's process; "": of the administrator's."""
        return {
            **self.settings,
            "MURMUREC_BOOTSTRAP_SERVERS": self.broker.encrypted if role else self.broker.bootstrap,
            "MURMUREC_TOPIC_PREFIX": self.prefix,
            "MURMUREC_KAFKA": json.dumps(self.broker.properties(role)) if role else "",
            **(self.changes if role else {}),
        }

    def run(self, role: str, words: str) -> tuple[int, str, str]:
        """Return the exit code, the output and the errors of a command."""
        with self.monkeypatch.context() as patch:
            for name, value in self.variables(role).items():
                patch.setenv(name, value)
            if words.startswith("gateway "):  # it ends its process
                ended = forks.run(words.split())
                return ended.returncode, ended.stdout, ended.stderr
            self.capsys.readouterr()
            code = run(words.split())
        return code, *self.capsys.readouterr()

    def works(self, role: str, words: str) -> str:
        """Run a command that must succeed, and return what it printed."""
        code, output, errors = self.run(role, words)
        assert code == 0, f"{role}: murmurec {words}: {output}{errors}"
        return output

    def refused(self, role: str, words: str) -> str:
        """Run a command that must fail, and return its one sentence; what `doctor` prints."""
        code, output, errors = self.run(role, words)
        if words == "doctor":
            assert (code, "Traceback" in errors) == (1, False), errors
            return next(line for line in output.splitlines() if line.startswith("FAULT"))
        shown = f"{role}: murmurec {words}: exit code {code}: {output}{errors}"
        sentences = [line for line in errors.splitlines() if line.startswith("murmurec: ")]
        assert code == 1, shown
        assert len(sentences) == 1, shown
        assert "Traceback" not in errors, shown
        return sentences[0]

    def lacks(self, role: str, words: str, right: AclBinding) -> None:
        """Check that without a right a command names it and the command that grants it."""
        with self.broker.without(right):
            sentence = self.refused(role, words)
        operation = AclOperation(right.operation).name
        # Whoever may alter configurations may see them.
        words = "(DESCRIBE|ALTER)_CONFIGS" if operation == "ALTER_CONFIGS" else operation
        grant = f"murmurec acl apply --role {role} --user"
        named = f"{re.escape(right.name)}.*: this user has no right to {words} it.*{grant}"
        assert re.search(named, sentence), f"without {operation} on {right.name}: {sentence}"

    def grant(self, role: str) -> list[AclBinding]:
        """Grant the rights of a role to its user by the command, and return them."""
        self.works("", f"acl apply --role {role} --user {role}")
        return [each for each in self.broker.rights(role) if each.name.startswith(self.prefix)]
