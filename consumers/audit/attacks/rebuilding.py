"""Rebuilding a person: what all reports of one device, combined, say about it.

Each candidate item starts at the odds of any item, and every release adds its evidence
(`evidence.py`). The attack gains, in nats,

    G = sum over items of KL(posterior || prior)  <=  KL of the joint posterior  <=  E

for a mechanism that is E-DP for the whole person: no output changes the probability of an event by
more than a factor e^E, and the divergence of marginals from a product prior is a lower bound. So a
G above the person's budget shows that more was published about a device than the budget allows.
Precision and recall of the items above 1/2 are those that the posterior itself expects.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from consumers.audit.attacks import evidence
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, Verdict, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.privacy_map import Adjacency

MOST_DEVICES = 400  # devices with the most reports


def rebuild(observed: Observed, configuration: PublicConfiguration) -> list[evidence.Rebuilt]:
    """Return the attack on the devices that released the most."""
    attack = evidence.Attack(observed, configuration, evidence.candidates(observed, configuration))
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
