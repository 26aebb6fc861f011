"""When devices send at the end of an epoch: in the order of their public moments.

    h(pseudonym, epoch) = blake2b-64("murmurec epoch"; pseudonym, epoch) / 2^64    in [0, 1)

In each epoch the devices are sorted by their time. The fewest devices whose removal leaves h rising
are out of place (n less the longest rising run); a few are late because a broker or a device was
away. Whatever the order is, it must not go with what was reported: the rank correlation r of the
time with the share of reports that say something, and with their mean, has r sqrt(n - 1) about
standard normal. The same for the distance from the public moment, by the straight line through all
moments of the epoch: a device that works longer where it has rated is late in the right order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, statistical, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

FEWEST = 20  # devices of an epoch whose order is looked at
LATE = 0.05  # share of devices that may be out of place
_PERSON = b"murmurec epoch"


def emission_share(pseudonym: bytes, epoch: int) -> float:
    """Return the public moment of a device in an epoch's end, as a fraction in [0, 1)."""
    moment = pseudonym + epoch.to_bytes(8, "little")
    digest = blake2b(moment, digest_size=8, person=_PERSON).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def moments(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield two findings for each mechanism that protects presence."""
    for place, mechanism in enumerate(configuration.mechanisms):
        if mechanism.adjacency is not Adjacency.CELL:
            continue
        in_order = f"{mechanism.id}: moments follow from pseudonym and epoch"
        apart = f"{mechanism.id}: moments do not go with what is reported"
        misplaced, devices, scores = 0, 0, []
        for epoch, chosen in _epochs(observed.messages, place):
            misplaced += _misplaced(observed.messages, chosen, epoch)
            devices += len(chosen)
            scores += _scores(observed.messages, chosen, mechanism, epoch)
        if not devices:
            yield untestable(in_order, f"no epoch of {FEWEST} devices")
            yield untestable(apart, f"no epoch of {FEWEST} devices")
            continue
        measured = f"{misplaced:,} of {devices:,} out of place ({LATE:.0%} may be late)"
        late = misplaced > LATE * devices
        yield decided(in_order, misplaced if late else 0, measured, misplaced=misplaced)
        worst = max(map(abs, scores), default=0.0)
        log_p = tails.several(tails.normal_tail(worst), len(scores))
        yield statistical(
            apart, log_p, f"{worst:.1f} standard deviations", correlations=len(scores)
        )


def _epochs(messages: Messages, mechanism: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each epoch of enough devices with the first message of every device, by time."""
    chosen = messages.under(mechanism)
    for epoch in np.unique(messages.epoch[chosen]):
        own = chosen[messages.epoch[chosen] == epoch]
        own = own[np.argsort(messages.time[own], kind="stable")]
        _, first = np.unique(messages.device[own], return_index=True)
        if len(first) >= FEWEST:
            yield int(epoch), own[np.sort(first)]


def _misplaced(messages: Messages, chosen: NDArray[np.int64], epoch: int) -> int:
    """Return how many devices are out of the order of their public moments."""
    shares = [emission_share(messages.devices[d], epoch) for d in messages.device[chosen].tolist()]
    # Messages of one millisecond have no order.
    ordered = sorted(zip(messages.time[chosen].tolist(), shares, strict=True))
    ends: list[float] = []
    for _, share in ordered:
        place = bisect_right(ends, share)
        ends[place : place + 1] = [share]
    return len(ordered) - len(ends)


def _scores(
    messages: Messages, chosen: NDArray[np.int64], mechanism: Mechanism, epoch: int
) -> list[float]:
    """Return the standardised rank correlations of the time, and of its distance from the public
    moment, with what the messages say."""
    rows, counts = messages.rows(chosen), messages.count[chosen]
    owner = np.repeat(np.arange(len(chosen)), counts)
    reports = messages.reports[rows]
    says = (reports != mechanism.alphabet - 1).astype(np.float64)
    share = np.bincount(owner, weights=says, minlength=len(chosen)) / counts
    mean = np.bincount(owner, weights=reports * says, minlength=len(chosen)) / counts
    time = (messages.time[chosen] - messages.time[chosen].min()).astype(np.float64)
    devices = messages.device[chosen].tolist()
    moment = np.array([emission_share(messages.devices[each], epoch) for each in devices])
    found = []
    for moved in (_ranks(time), _ranks(np.rint(_distances(time, moment)))):
        for content in (_ranks(share), _ranks(mean)):
            spread = float(np.sqrt((moved**2).sum() * (content**2).sum()))
            if spread > 0:
                found.append(float((moved * content).sum()) / spread * np.sqrt(len(chosen) - 1))
    return found


def _distances(time: NDArray[np.float64], moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how late each time is by the straight line through all of them, in ms."""
    centred = moment - moment.mean()
    slope = float((centred * time).sum() / (centred**2).sum())
    return np.asarray(time - time.mean() - slope * centred, np.float64)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return centred ranks, equal for equal values."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle = ends - (counts + 1) / 2
    return np.asarray(middle[place.reshape(-1)] - (len(values) - 1) / 2, np.float64)
