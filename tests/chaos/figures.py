"""What a run found, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tests.chaos.points import Point


@dataclass
class Figures:
    """The findings of one run or of several, added up."""

    kills: int = 0
    aimed: Counter[Point] = field(default_factory=Counter)
    hit: Counter[Point] = field(default_factory=Counter)
    died: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    compared: int = 0
    digest_reports: int = 0
    checkpoints: int = 0
    records: int = 0
    again: dict[str, list[float]] = field(default_factory=dict)
    answers: int = 0
    unanswered: list[str] = field(default_factory=list)
    longest_answer_seconds: float = 0.0
    seconds: float = 0.0

    def add(self, other: Figures) -> None:
        """Add the findings of another run."""
        self.kills += other.kills
        self.aimed += other.aimed
        self.hit += other.hit
        self.died += other.died
        self.wrong += other.wrong
        self.compared += other.compared
        self.digest_reports += other.digest_reports
        self.checkpoints += other.checkpoints
        self.records += other.records
        for name, seconds in other.again.items():
            self.again.setdefault(name, []).extend(seconds)
        self.answers += other.answers
        self.unanswered += other.unanswered
        self.longest_answer_seconds = max(self.longest_answer_seconds, other.longest_answer_seconds)
        self.seconds += other.seconds

    def lines(self) -> list[str]:
        """Return the figures as lines of text."""
        lines = [
            f"{self.kills} kills in {self.seconds:.0f} s, {len(self.wrong)} wrong states; "
            f"compared: {self.compared} states, {self.digest_reports} digest reports, "
            f"{self.checkpoints} checkpoints written, {self.records:,} records",
        ]
        lines += [
            f"  {point:36} aimed {self.aimed[point]:3}  hit {self.hit[point]:3}  "
            f"writer's records end there {self.died[str(point)]:3}"
            for point in Point
        ]
        for name, seconds in self.again.items():
            p50, p99 = np.percentile(seconds, [50, 99])
            lines.append(
                f"  {name:36} {len(seconds):3} times: p50 {p50:.2f} s  p99 {p99:.2f} s  longest "
                f"{max(seconds):.2f} s"
            )
        if self.answers:
            longest = f"longest {self.longest_answer_seconds * 1000:.0f} ms"
            lines.append(
                f"  queries over Kafka while one is dead: {self.answers} answers, "
                f"{len(self.unanswered)} without, {longest}"
            )
        lines += [f"  UNANSWERED: {sentence}" for sentence in self.unanswered]
        return lines + [f"  WRONG: {sentence}" for sentence in self.wrong]
