"""What stands beside the events: rejected records, headers, extra bytes, numbers, replies.

The length of replies grows with the longest id of the public catalogue, by the same for each entry,
and is smaller again only where a worker starts. So honest lengths differ by multiples of the
entries, and few replies are shorter than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.wire import LIST_LENGTH

SHORTER = 0.05  # share of replies that may be shorter than the one before in their partition


def bytes_and_numbers(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the findings about single records and their numbers."""
    odd = observed.oddities
    if not odd.records:
        yield untestable("records and their numbers are as they should be", "no record")
        return
    rejected = sum(odd.rejected.values())
    reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(odd.rejected.items()))
    yield decided(
        "every record is a valid event of an allowed mechanism, under its pseudonym",
        rejected,
        f"{odd.records:,} records" + (f"; {reasons}" if reasons else ", all valid"),
        records=odd.records,
    )
    yield decided(
        "a record carries nothing beside its event and tag",
        odd.headers + odd.extra_bytes,
        f"{odd.headers:,} with other headers, {odd.extra_bytes:,} with bytes beyond the event's "
        "fields",
    )
    if not configuration.accept_tests:
        yield decided(
            "no report was drawn from a predictable source",
            odd.tests,
            f"{odd.tests:,} events are marked as tests",
        )
    yield decided(
        "a number is never used again with other bytes",
        odd.reused,
        f"{odd.reused:,} reused, {odd.redelivered:,} redelivered unchanged",
        redelivered=odd.redelivered,
    )
    yield _gaps(observed.messages)
    yield _replies(observed)


def _gaps(messages: Messages) -> Finding:
    """Return the finding about numbers that are missing between others of the same device."""
    claim = "the numbers of a device have no gaps"
    if not len(messages):
        return untestable(claim, "no rating message")
    order = np.lexsort((messages.seq, messages.device))
    same = messages.device[order][1:] == messages.device[order][:-1]
    steps = np.diff(messages.seq[order])[same]
    missing, places = int((steps[steps > 1] - 1).sum()), int((steps > 1).sum())
    measured = f"{missing:,} numbers are missing at {places:,} places"
    return decided(claim, places, measured, missing=missing)


def _replies(observed: Observed) -> Finding:
    claim = "replies have one length in bytes and in entries"
    if not observed.replies.total:
        return untestable(claim, "no reply is kept on the topic")
    replies, lengths = observed.replies, observed.replies.lengths
    sizes, usual = sorted(lengths), lengths.most_common(1)[0][0]
    odd = replies.other_entries + replies.other_lengths
    odd += sum(count for size, count in lengths.items() if (size - usual) % LIST_LENGTH)
    shorter = replies.shorter
    odd += shorter if shorter > max(1.0, SHORTER * replies.total) else 0
    spread = f"{sizes[0]:,} to {sizes[-1]:,} bytes" if len(sizes) > 1 else f"{sizes[0]:,} bytes"
    return decided(
        claim,
        odd,
        f"{replies.total:,} replies of {len(sizes):,} lengths, {spread}; "
        f"{shorter:,} shorter than the one before",
        lengths=len(sizes),
    )
