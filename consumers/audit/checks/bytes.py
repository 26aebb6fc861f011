"""What stands beside the events: rejected records, headers, extra bytes, numbers, replies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.wire import LIST_LENGTH


def bytes_and_numbers(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the findings about single records and their numbers."""
    odd = observed.oddities
    rejected = sum(odd.rejected.values())
    reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(odd.rejected.items()))
    yield decided(
        "every record is a valid event of an allowed mechanism, under its pseudonym",
        rejected,
        f"{odd.records:,} records" + (f"; {reasons}" if reasons else ", all valid"),
        records=odd.records,
    )
    yield decided(
        "a record carries nothing beside its event",
        odd.headers + odd.extra_bytes,
        f"{odd.headers:,} with headers, {odd.extra_bytes:,} with bytes beyond the event's fields",
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
    if not observed.replies:
        return untestable(claim, "no reply is kept on the topic")
    sizes = sorted({size for size, _ in observed.replies})
    odd = sum(entries != LIST_LENGTH for _, entries in observed.replies)
    spread = f"{sizes[0]:,} to {sizes[-1]:,} bytes" if len(sizes) > 1 else f"{sizes[0]:,} bytes"
    return decided(
        claim,
        len(sizes) - 1 + odd,
        f"{len(observed.replies):,} replies of {len(sizes):,} lengths, {spread}",
        lengths=len(sizes),
    )
