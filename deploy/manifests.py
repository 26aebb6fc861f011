"""The manifests of `kubernetes/` that come from a table; `python deploy/manifests.py` writes them.

kafka-topics.yaml      wire.Topics, for the settings of kubernetes/settings.env
kafka-users.yaml       kafka.acls, a user of Strimzi for each role, under the same settings
prometheus-rule.yaml   alerts.yml
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from stream_app.cli.server.acl import Role, kafka_user
from stream_app.kafka import acls
from stream_app.kafka.topic_admin import Replication
from stream_app.settings import Settings
from stream_app.wire import Topics

HERE = Path(__file__).parent
FOLDER = HERE / "kubernetes"
CLUSTER = "murmurec"
_COPIES = 3
_WRITTEN = "# Written by deploy/manifests.py.\n"


def deployed() -> Settings:
    """Return the settings of settings.env, and of nothing else."""
    lines = (FOLDER / "settings.env").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return Settings(
        **{
            name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower(): text
            for name, text in given.items()
        }
    )


def kafka_topics(settings: Settings) -> Iterator[str]:
    """Return a KafkaTopic for each topic of the deployment."""
    table = Topics(settings.topic_prefix, settings.shards).table(
        settings.partitions,
        settings.ratings_retention_seconds,
        settings.query_partitions,
        settings.features,
    )
    in_sync = Replication(_COPIES, settings.min_insync_replicas).in_sync_of(_COPIES)
    for topic in table:
        config = {**topic.config, "min.insync.replicas": str(in_sync)}
        yield (
            "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nmetadata:\n"
            f"  name: {topic.name}\n  labels: {{strimzi.io/cluster: {CLUSTER}}}\n"
            f"spec:\n  partitions: {topic.partitions}\n  replicas: {_COPIES}\n  config:\n"
        ) + "".join(f'    {name}: "{text}"\n' for name, text in config.items())


def kafka_users(settings: Settings) -> Iterator[str]:
    """Return a KafkaUser for each role that has rights under these settings."""
    topics = Topics(settings.topic_prefix, settings.shards)
    for role in Role:
        if acls.of_role(role, topics, settings.features):
            user = f"murmurec-{role}"
            group = settings.worker_group
            rights = acls.bindings(role, user, topics, settings.features, group)
            yield kafka_user(user, map(acls.row, rights), CLUSTER)


def prometheus_rule() -> str:
    """Return the alerts as a PrometheusRule."""
    text = (HERE / "alerts.yml").read_text(encoding="utf-8")
    head = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
    return f"{head}metadata:\n  name: murmurec\nspec:\n{textwrap.indent(text, '  ')}"


def manifests() -> Mapping[str, str]:
    """Return file name -> text."""
    settings = deployed()
    found = {
        "kafka-topics.yaml": "---\n".join(kafka_topics(settings)),
        "kafka-users.yaml": "---\n".join(kafka_users(settings)),
        "prometheus-rule.yaml": prometheus_rule(),
    }
    return {name: _WRITTEN + text for name, text in found.items()}


def main() -> None:
    """Write the files."""
    for name, text in manifests().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {(FOLDER / name).relative_to(HERE.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()
