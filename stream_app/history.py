"""The cut log read at once: every entry that it holds now, and which of them count.

What a replica takes bit by bit is read here in one go by whoever asks about the past: which cuts
there were, which checkpoints were witnessed, who was to be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from stream_app import changelog
from stream_app.log.rounds import Chain
from stream_app.wire import Cut, Entry, Forget, Topics, WireError, Witness, decode_entry


@dataclass(frozen=True)
class Past:
    """An entry that counts, and where the cut log goes on after it."""

    entry: Entry
    cut_offset: int


@dataclass(frozen=True)
class History:
    """What the cut log holds: the cuts from number 1 on, each with where the log goes on after it,
    and the rest in its order.

    `forgets` are the devices with the number of the cut whose round they are forgotten before; one
    that still waits for its cut has the number after the newest.
    """

    cuts: tuple[tuple[Cut, int], ...]
    forgets: tuple[tuple[int, Forget], ...]
    witnesses: tuple[Witness, ...]

    def forgotten(self, cut: int, rebuild_only: bool = False) -> tuple[str, ...]:
        """Return the devices that are forgotten in the state at a cut, sorted."""
        return tuple(
            sorted(
                {
                    forget.device
                    for number, forget in self.forgets
                    if number <= cut and (forget.rebuild or not rebuild_only)
                }
            )
        )


def entries(
    bootstrap: str,
    extra: Mapping[str, str],
    topics: Topics,
    partitions: int,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Past]:
    """Yield the entries that count, from the first to the newest."""
    chain = Chain(0, (0,) * partitions)
    for message in changelog.records(bootstrap, extra, topics.cuts, progress):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if chain.take(entry):
            yield Past(entry, message.offset() + 1)  # type: ignore[operator]


def history(
    bootstrap: str,
    extra: Mapping[str, str],
    topics: Topics,
    partitions: int,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Return what the cut log holds now."""
    cuts: list[tuple[Cut, int]] = []
    forgets: list[tuple[int, Forget]] = []
    witnesses: list[Witness] = []
    for past in entries(bootstrap, extra, topics, partitions, progress):
        match past.entry:
            case Cut():
                cuts.append((past.entry, past.cut_offset))
            case Forget():
                forgets.append((len(cuts) + 1, past.entry))
            case Witness():
                witnesses.append(past.entry)
    return History(tuple(cuts), tuple(forgets), tuple(witnesses))
