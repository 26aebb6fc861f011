"""`murmurec acl`: the rights of each role at Kafka, printed, granted and checked from one table."""

from __future__ import annotations

import re
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.commands import option
from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import plural, print_json, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Step(StrEnum):
    """What is done with the rights."""

    print = "print"
    apply = "apply"
    check = "check"


class Form(StrEnum):
    """How rights are printed."""

    commands = "commands"
    strimzi = "strimzi"


class Role(StrEnum):
    """Who has rights at Kafka (`kafka/acls.py`)."""

    device = "device"
    reader = "reader"
    editor = "editor"
    gateway = "gateway"
    worker = "worker"
    aggregator = "aggregator"
    operator = "operator"
    auditor = "auditor"


def acl(
    cluster: Cluster,
    step: Annotated[Step, typer.Argument(metavar="STEP", help="print, apply or check.")],
    role: Role = option(..., "Whose rights."),
    user: str | None = option(None, "The role's user at Kafka.", "NAME"),
    form: Form = option(
        Form.commands, "print: commands of Kafka, or a Strimzi KafkaUser.", None, "--format"
    ),
    as_json: JsonOption = False,
) -> None:
    """Print the rights of a role as commands of Kafka, grant them, or check them.

    The settings decide which features need rights. check names the first right that the configured
    user lacks; with --user, by a super user of Kafka, all that this user lacks or has too much.

    Example: murmurec acl print --role device --user tablets
    """
    from stream_app.kafka import acls, clients
    from stream_app.wire import Topics
    from stream_app.wire.topics import FEATURES

    settings = cluster.settings().model_copy(update={"shard": None})  # of all of them
    topics = Topics(settings.topic_prefix, settings.shards)
    if step is not Step.print:
        clients.describe_cluster(connection_from(settings))
    on = settings.features
    wanted = acls.of_role(role, topics, on)
    if not wanted:
        raise UserError(f"{role}: a role of campaigns; set {FEATURES['campaigns']}")
    if step is Step.check and not user:
        acls.check(connection_from(settings), wanted, role, settings.worker_group)
        say(f"this user has the rights of a {role} on {plural(len(wanted), 'topic')}")
        return
    if not user:
        raise UsageError(f"acl {step}: give the role's user at Kafka as --user")
    rights = acls.bindings(role, user, topics, on, settings.worker_group)
    if step is Step.apply:
        acls.grant(connection_from(settings), rights)
    if step is Step.check:
        acls.compare(connection_from(settings), rights)
    rows = [acls.row(right) for right in rights]
    if as_json:
        print_json(rows, indent=2)
    elif step is not Step.print:
        say(f"{user} has {plural(len(rights), 'right')} of a {role}")
    elif form is Form.strimzi:
        typer.echo(kafka_user(user, rows), nl=False)
    else:
        for row in rows:
            say(_command(row, settings.bootstrap_servers or "HOST:9092"))


def kafka_user(user: str, rows: Iterable[Mapping[str, str]], cluster: str = "murmurec") -> str:
    """Return the manifest by which Strimzi makes a user of a cluster, with a password of its own
    and these rights (`acls.row`)."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", user):
        raise UsageError(f"--user {user}: a KafkaUser has 1 to 253 of a-z 0-9 . - as its name")
    resources: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        found = resources.setdefault((row["kind"], row["name"], row["pattern"]), [])
        found.append(_words(row["operation"]))
    return _KAFKA_USER.format(user=user, cluster=cluster) + "".join(
        _RESOURCE.format(
            kind=kind,
            name=name,
            pattern="prefix" if pattern == "prefixed" else pattern,  # as Strimzi calls it
            operations=", ".join(operations),
        )
        for (kind, name, pattern), operations in resources.items()
    )


_KAFKA_USER = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata:
  name: "{user}"
  labels:
    strimzi.io/cluster: {cluster}
spec:
  authentication:
    type: scram-sha-512
  authorization:
    type: simple
    acls:
"""
_RESOURCE = """\
      - resource: {{type: {kind}, name: "{name}", patternType: {pattern}}}
        operations: [{operations}]
"""


def _words(operation: str) -> str:
    """Return an operation as Kafka's tools and Strimzi write it: DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.split("_"))


def _command(row: Mapping[str, str], servers: str) -> str:
    """Return the command of Kafka's own tool that grants a right."""
    operation = _words(row["operation"])
    where = [f"--{row['kind']}", row["name"], "--resource-pattern-type", row["pattern"]]
    grantee = ["--allow-principal", row["principal"], "--operation", operation]
    return shlex.join(["kafka-acls.sh", "--bootstrap-server", servers, "--add", *grantee, *where])
