"""One /metrics page as numbers, by name without `murmurec_` and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from math import isfinite, nan

from prometheus_client.parser import text_string_to_metric_families

_MOST_COUNT = 2.0**53  # where a number of JavaScript ceases to be exact
_END = re.compile("[{ ]")  # of the name of a sample
_WORD = re.compile(r"[a-z][a-z0-9_+-]{0,31}")

Labels = frozenset[tuple[str, str]]


class Exposition:
    """The samples of `names`; ValueError for a page in another format."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        # Only lines of these names are parsed: a page has a thousand others.
        lines = [line for line in text.split("\n") if _END.split(line, maxsplit=1)[0] in names]
        self._samples: dict[tuple[str, Labels], float] = {}
        try:
            for family in text_string_to_metric_families("\n".join(lines) + "\n"):
                for sample in family.samples:
                    place = sample.name, frozenset(sample.labels.items())
                    self._samples[place] = float(sample.value)
        except (ValueError, IndexError, KeyError):
            raise ValueError("the page is not in the text format of Prometheus") from None

    def number(self, name: str, **labels: str) -> float | None:
        """Return a number, None where it is absent or not finite."""
        value = self._samples.get((f"murmurec_{name}", frozenset(labels.items())), nan)
        return value if isfinite(value) else None

    def whole(self, name: str, **labels: str) -> int | None:
        """Return a count, None where it is absent or not finite."""
        value = self.number(name, **labels)
        return None if value is None or abs(value) > _MOST_COUNT else int(value)

    def label(self, name: str, label: str) -> str | None:
        """Return a label of the first sample of a metric whose value is 1; None for what is no
        plain word."""
        for (found, labels), value in self._samples.items():
            if found == f"murmurec_{name}" and value == 1:
                word = dict(labels).get(label, "")
                return word if _WORD.fullmatch(word) else None
        return None

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sum of a metric for each value of a label, of samples that are finite."""
        found: dict[str, float] = {}
        for labels, value in self._series(name):
            key = labels.get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def all(self, name: str) -> list[float]:
        """Return all samples of a metric that are finite."""
        return [value for _, value in self._series(name)]

    def _series(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for (found, labels), value in self._samples.items():
            if found == f"murmurec_{name}" and isfinite(value):
                yield dict(labels), value
