"""`murmurec acl`: the rights of each role at Kafka, printed, granted and checked from one table."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import plural, print_json, say
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding


class Step(StrEnum):
    """What is done with the rights."""

    print = "print"
    apply = "apply"
    check = "check"


class Role(StrEnum):
    """Who has rights at Kafka (`kafka/acls.py`)."""

    device = "device"
    reader = "reader"
    editor = "editor"
    gateway = "gateway"
    worker = "worker"
    aggregator = "aggregator"
    operator = "operator"


def acl(
    cluster: Cluster,
    step: Annotated[Step, typer.Argument(metavar="STEP", help="print, apply or check.")],
    role: Annotated[Role, typer.Option("--role", help="Whose rights.")],
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="The role's user at Kafka."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the rights of a role as commands of Kafka, grant them, or check one's own.

    The settings decide which features need rights. check names the first right that the configured
    user lacks; print and apply give the rights to --user.

    Example: murmurec acl print --role device --user tablets
    """
    from stream_app.kafka import acls
    from stream_app.wire import Topics

    settings = cluster.settings()
    topics = Topics(settings.topic_prefix)
    if step is Step.check:
        wanted = acls.of_role(role, topics, settings.features)
        acls.check(connection_from(settings), wanted, role)
        say(f"this user has the rights of a {role} on {plural(len(wanted), 'topic')}")
        return
    if not user:
        raise UsageError(f"acl {step}: give the role's user at Kafka as --user")
    group = settings.group or settings.topic_prefix
    rights = acls.bindings(role, user, topics, settings.features, group)
    if step is Step.apply:
        acls.grant(connection_from(settings), rights)
    if as_json:
        print_json([_row(right) for right in rights], indent=2)
    elif step is Step.apply:
        say(f"{user} has {plural(len(rights), 'right')} of a {role}")
    else:
        for right in rights:
            say(_command(right, settings.bootstrap_servers or "HOST:9092"))


def _row(right: AclBinding) -> dict[str, str]:
    from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

    return {
        "principal": right.principal,
        "operation": AclOperation(right.operation).name,
        "kind": ResourceType(right.restype).name.lower(),
        "name": right.name,
        "pattern": ResourcePatternType(right.resource_pattern_type).name.lower(),
    }


def _command(right: AclBinding, servers: str) -> str:
    """Return the command of Kafka's own tool that grants a right."""
    row = _row(right)
    operation = "".join(word.capitalize() for word in row["operation"].split("_"))
    where = [f"--{row['kind']}", row["name"], "--resource-pattern-type", row["pattern"]]
    grantee = ["--allow-principal", row["principal"], "--operation", operation]
    return shlex.join(["kafka-acls.sh", "--bootstrap-server", servers, "--add", *grantee, *where])
