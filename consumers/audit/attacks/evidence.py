"""Rebuilding a person: what all reports of one device, combined, say about it.

Each candidate item starts at the odds of any item, and every release adds its evidence:

    cell    ln P(report | rated) / P(report | not rated)
    rr      the posterior of the level behind each report

The prior of an item is the mean number of items over the number of candidates, that of a level the
mixture that explains all reports. The attack gains, in nats,

    G = sum over items of KL(posterior || prior)  <=  KL of the joint posterior  <=  E

for a mechanism that is E-DP for the whole person: no output changes the probability of an event by
more than a factor e^E, and the divergence of marginals from a product prior is a lower bound. So a
G above the person's budget shows that more was published about a device than the budget allows.
Precision and recall of the items above 1/2 are those that the posterior itself expects.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, Verdict, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

MOST_CANDIDATES = 20_000
_CERTAIN = 700.0  # log-odds that float64 still holds


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """What the attack says about one device: P(rated) of each candidate (n,) or None where presence
    was never hidden, and the nats gained about items and levels."""

    device: bytes
    posterior: NDArray[np.float64] | None
    gained: float

    @property
    def precision(self) -> float:
        """The expected share of the items above 1/2 that are rated."""
        picked = self.posterior[self.posterior > 0.5] if self.posterior is not None else ()
        return float(np.mean(picked)) if len(picked) else 0.0

    @property
    def recall(self) -> float:
        """The expected share of the rated items that are above 1/2."""
        if self.posterior is None:
            return 0.0
        return float(self.posterior[self.posterior > 0.5].sum() / self.posterior.sum())


def candidates(observed: Observed, configuration: PublicConfiguration) -> NDArray[np.uint64]:
    """Return the items that may be rated: the public scope, else every item on the wire."""
    if configuration.scope is not None:
        return configuration.scope[:MOST_CANDIDATES]
    items, counts = np.unique(observed.messages.items, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CANDIDATES])
    return np.asarray(items[kept], np.uint64)


class Attack:
    """The attack with what all devices share: candidates, priors and the evidence of a report."""

    def __init__(
        self, observed: Observed, configuration: PublicConfiguration, items: NDArray[np.uint64]
    ) -> None:
        self._observed, self._items = observed, items
        self._mechanisms = configuration.mechanisms
        self._rated = [_evidence_of_rating(each) for each in configuration.mechanisms]
        self._gains = [
            _gains(each, observed, place) for place, each in enumerate(configuration.mechanisms)
        ]
        self._size = self._reported_size()

    def _reported_size(self) -> float:
        """Return the mean number of rated items of a device, as the reports estimate it."""
        messages, total, devices = self._observed.messages, 0.0, 0
        for place, mechanism in enumerate(self._mechanisms):
            chosen = messages.under(place)
            if mechanism.adjacency is Adjacency.CELL and len(chosen):
                total += float(mechanism.presence(messages.reports[messages.rows(chosen)]).sum())
                devices += len(np.unique(messages.device[chosen]))
        return max(1.0, total / devices) if devices else 1.0

    def device(self, name: bytes, released: list[int]) -> Rebuilt:
        """Return the attack on one device, which released these messages."""
        count = max(2, len(self._items))
        prior = min(0.5, self._size / count)
        evidence = np.zeros(len(self._items))
        hidden, gained = False, 0.0
        messages = self._observed.messages
        for message in released:
            place = int(messages.mechanism[message])
            rows = slice(messages.first[message], messages.first[message + 1])
            reports, masks = messages.reports[rows], messages.masks[rows]
            rated = self._rated[place]
            if rated is None:
                gained += float(self._gains[place][masks, reports].sum())
            elif len(self._items):
                at = np.searchsorted(self._items, messages.items[rows])
                at = np.minimum(at, len(self._items) - 1)
                known = self._items[at] == messages.items[rows]
                np.add.at(evidence, at[known], rated[reports[known]])
                hidden = True
        if not hidden or not len(self._items):
            return Rebuilt(name, None, gained)
        posterior = logistic(np.log(prior) - np.log1p(-prior) + evidence)
        return Rebuilt(name, posterior, gained + _divergence(posterior, prior))


def _evidence_of_rating(mechanism: Mechanism) -> NDArray[np.float64] | None:
    """Return ln P(report | rated) / P(report | not rated), None where presence is public."""
    if mechanism.adjacency is not Adjacency.CELL:
        return None
    channel = mechanism.likelihood()
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(channel[:, :-1].mean(axis=1)) - np.log(channel[:, -1])
    return np.asarray(np.clip(np.nan_to_num(found), -_CERTAIN, _CERTAIN), np.float64)


def _gains(mechanism: Mechanism, observed: Observed, place: int) -> NDArray[np.float64]:
    """Return KL(posterior || prior) of the level behind each report, by mask and report."""
    masks = list(mechanism.masks) or [0]
    found = np.zeros((max(masks) + 1, 256))
    if mechanism.adjacency is not Adjacency.VALUE:
        return found
    messages = observed.messages
    rows = messages.rows(messages.under(place))
    for mask in masks:
        reports = messages.reports[rows[messages.masks[rows] == mask]]
        if not len(reports):
            continue
        channel = mechanism.likelihood(mask)
        prior = _mixture(np.bincount(reports, minlength=len(channel)), channel)
        joint = channel * prior
        joint /= joint.sum(axis=1, keepdims=True)
        some = (joint > 0) & (prior > 0)
        terms = np.where(some, joint, 1.0) * np.log(
            np.where(some, joint / np.where(prior > 0, prior, 1.0), 1.0)
        )
        found[mask, : len(channel)] = terms.sum(axis=1)
    return found


def _mixture(counts: NDArray[np.int64], channel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the law of the levels that explains the counts best, (v,)."""
    mixture = np.full(channel.shape[1], 1 / channel.shape[1])
    for _ in range(500):
        mixture = mixture * ((counts / counts.sum() / (channel @ mixture)) @ channel)
    return mixture


def logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of log-odds."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -_CERTAIN, _CERTAIN))), np.float64)


def _divergence(posterior: NDArray[np.float64], prior: float) -> float:
    """Return the sum over the items of KL(posterior || prior), in nats."""
    total = np.zeros(len(posterior))
    for share, before in ((posterior, prior), (1 - posterior, 1 - prior)):
        some = share > 0
        total[some] += share[some] * np.log(share[some] / before)
    return float(total.sum())


MOST_DEVICES = 400  # devices with the most reports


def rebuild(observed: Observed, configuration: PublicConfiguration) -> list[Rebuilt]:
    """Return the attack on the devices that released the most."""
    attack = Attack(observed, configuration, candidates(observed, configuration))
    return [attack.device(name, each) for name, each in _busiest(observed)]


def rebuilding(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the finding about the budget of a whole person."""
    claim = f"no person is told apart by more than the budget of {configuration.budget:g} nats"
    if not len(observed.messages):
        yield untestable(claim, "nothing was released")
        return
    raw = np.array([each.adjacency is Adjacency.NOTHING for each in configuration.mechanisms])
    open_reports = int(observed.messages.count[raw[observed.messages.mechanism]].sum())
    if open_reports == len(observed.messages.items):
        yield untestable(claim, "every report is under a mechanism that claims nothing")
        return
    found = rebuild(observed, configuration)
    gained = np.array([each.gained for each in found])
    over = int((gained > configuration.budget).sum())
    worst = found[int(gained.argmax())]
    measured = (
        f"{over:,} of {len(found):,} devices above; {gained.mean():.1f} nats on average, "
        f"{gained.max():.1f} at most"
    )
    if open_reports:
        measured += f"; {open_reports:,} reports without protection are not counted"
    figures: dict[str, float | int] = {"violations": over, "most_nats": float(gained.max())}
    if worst.posterior is not None:
        measured += f", rebuilt with precision {worst.precision:.2f} and recall {worst.recall:.2f}"
        figures |= {"precision": worst.precision, "recall": worst.recall}
    verdict = Verdict.VIOLATED if over else Verdict.OK
    yield Finding(claim, verdict, measured, None, figures)


def _busiest(observed: Observed) -> list[tuple[bytes, list[int]]]:
    """Return the messages of the devices with the most reports."""
    found: dict[bytes, list[int]] = defaultdict(list)
    weights: Counter[bytes] = Counter()
    messages = observed.messages
    for message, (device, count) in enumerate(
        zip(messages.device.tolist(), messages.count.tolist(), strict=True)
    ):
        found[messages.devices[device]].append(message)
        weights[messages.devices[device]] += count
    ordered = sorted(found.items(), key=lambda pair: (-weights[pair[0]], pair[0]))
    return ordered[:MOST_DEVICES]
