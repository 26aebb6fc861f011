"""The tables of docs/reference.md, from the settings, the topics, the metrics and the contract.

python -m tests.reference_page     writes them into the page
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from research.privacy_page import filled
from stream_app import wire
from stream_app.gateway.contract.rejection_reasons import OF_THE_WIRE
from stream_app.monitoring.metric_table import METRICS
from stream_app.settings import GROUPS

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
OF_THE_USER = ("data_dir", "cache_dir")  # differ from machine to machine


def settings() -> str:
    """Return for each table of the file one row for each setting: name, default, meaning."""
    parts = []
    for title, group in GROUPS.items():
        rows = []
        for name, field in group.model_fields.items():
            value = field.get_default(call_default_factory=True)
            shown = "the user's" if name in OF_THE_USER else default(name, value)
            rows.append((f"`{name}`", shown, str(field.description).replace("|", "\\|")))
        parts.append(f"### [{title}]\n\n{table(('setting', 'default', 'meaning'), rows)}")
    return "\n".join(parts)


def default(name: str, value: object) -> str:
    """Return a default as a reader writes it; "none" where nothing is set."""
    if value is None or value == () or value == {}:
        return "none"
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value >> 20} MiB"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


def topics() -> str:
    """Return one row for each topic: name, key, value, partitions, how it is kept, its feature."""
    rows = []
    for topic in wire.Topics().table():
        milliseconds = int(topic.config.get("retention.ms", "-1"))
        kept = "compacted" if topic.config["cleanup.policy"] == "compact" else "for good"
        if milliseconds > 0:
            kept = f"{milliseconds // 3_600_000} h"
        count = f"`{topic.counted_by}`" if topic.counted_by else str(topic.partitions)
        rows.append((f"`{topic.name}`", topic.key, topic.value, count, kept, topic.feature))
    return table(("topic", "key", "value", "partitions", "kept", "needed by"), rows)


def metrics() -> str:
    """Return one row for each metric: name, meaning."""
    rows = [(f"`{metric.published_name}`", metric.meaning) for metric in METRICS]
    return table(("metric", "meaning"), rows)


def reasons() -> str:
    """Return one row for each reason why a record is rejected."""
    rows = [(f"`{reason}`", said) for reason, said in OF_THE_WIRE.items()]
    return table(("reason", "says"), rows[1:])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "topics": topics,
    "metrics": metrics,
    "reasons": reasons,
}


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), TABLES), encoding="utf-8")
