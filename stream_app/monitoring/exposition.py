"""One /metrics page as numbers, by name without `murmurec_` and labels.

The page of a worker of several shards is read as that of one worker: counts, and what each shard
has a part of, are sums; the shard that is least ready or last decides; measurements are means.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from math import isfinite, nan
from statistics import fmean

from prometheus_client.parser import text_string_to_metric_families

_MOST_COUNT = 2.0**53  # where a number of JavaScript ceases to be exact
_END = re.compile("[{ ]")  # of the name of a sample
_WORD = re.compile(r"[a-z][a-z0-9_+-]{0,31}")

_SUM = re.compile(r"murmurec_(devices|list_devices|consumer_lag_records|\w+_(total|bucket))")
_LEAST = re.compile(r"murmurec_(ready|shard_up)")
_MOST = re.compile(r"murmurec_(cut_number|consumer_lag_seconds|list_method|\w+_info)")

Labels = frozenset[tuple[str, str]]


class Exposition:
    """The samples of `names`; ValueError for a page in another format."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        # Only lines of these names are parsed: a page has a thousand others.
        lines = [line for line in text.split("\n") if _END.split(line, maxsplit=1)[0] in names]
        every: dict[tuple[str, Labels], list[float]] = defaultdict(list)
        try:
            for family in text_string_to_metric_families("\n".join(lines) + "\n"):
                for sample in family.samples:
                    labels = frozenset(each for each in sample.labels.items() if each[0] != "shard")
                    every[sample.name, labels].append(float(sample.value))
        except (ValueError, IndexError, KeyError):
            raise ValueError("the page is not in the text format of Prometheus") from None
        self._samples = {place: _joined(place[0], values) for place, values in every.items()}

    def number(self, name: str, **labels: str) -> float | None:
        """Return a number, None where it is absent or not finite."""
        value = self._samples.get((f"murmurec_{name}", frozenset(labels.items())), nan)
        return value if isfinite(value) else None

    def whole(self, name: str, **labels: str) -> int | None:
        """Return a count, None where it is absent or not finite."""
        value = self.number(name, **labels)
        return None if value is None or abs(value) > _MOST_COUNT else int(value)

    def label(self, name: str, label: str) -> str | None:
        """Return a label of the sample of a metric whose value is 1, of several the last by name:
        the weakest privacy mode is `none`; None for what is no plain word."""
        words = [labels.get(label, "") for labels, value in self._series(name) if value == 1]
        word = max(words, default="")
        return word if _WORD.fullmatch(word) else None

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


def _joined(name: str, values: list[float]) -> float:
    """Return the number of all shards of which these are the numbers of each."""
    known = [value for value in values if isfinite(value)]
    if len(values) == 1 or not known:
        return values[0]
    if _SUM.fullmatch(name):
        return sum(known)
    if _LEAST.fullmatch(name):
        return min(known)
    return max(known) if _MOST.fullmatch(name) else fmean(known)
