"""The public configuration of a deployment, which is all that the observer is given, and its lists
in files: the items of a scope, the pseudonyms that are enrolled, canaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy.accounting.budget_plans import LEAST_DELTA
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.wire import PARTITIONS

NO_RATING = -1  # of a canary that has rated nothing, whatever number of levels a mechanism has
PERSON_DELTA = 1e-6
MOST_EPOCHS = 4096  # between two turns of an item
PERSON_BUDGET = 20.0  # nats: the default of an account, for the whole person


@dataclass(frozen=True)
class PublicConfiguration:
    """What a deployment states in public.

    mechanisms   the allow-list
    scope        the public list of items, rising keys (n,); None: not given to the observer
    enrolled     pseudonyms that are enrolled and were so before the two newest epochs of the topic
                 (an account emits from the epoch after it enrolled on, and the newest does not
                 count before a twentieth has emitted), where that list is public; None: not given
    canaries     pseudonym -> the level index of every rating that the observer's own device
                 reports, or `NO_RATING`
    budget       epsilon of a whole person in 365 days, in nats, at `delta`
    rounds       how often a cell may be reported
    rotate_every  epochs between two turns of an item; None: not given, the log shows it
    scope_key    decides in which epochs an item has its turn
    alpha        probability with which an honest deployment may be accused
    """

    mechanisms: tuple[Mechanism, ...]
    partitions: int = PARTITIONS
    accept_tests: bool = False
    scope: NDArray[np.uint64] | None = None
    enrolled: frozenset[bytes] | None = None
    canaries: Mapping[bytes, int] = field(default_factory=dict)
    budget: float = PERSON_BUDGET
    delta: float = PERSON_DELTA
    rounds: int = 1
    rotate_every: int | None = None
    scope_key: int = 1
    alpha: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha {self.alpha}: a probability above 0 and below 1")
        if not self.budget > 0:
            raise ValueError(f"budget {self.budget}: a person's epsilon is above 0")
        if not float(LEAST_DELTA) <= self.delta < 1:
            raise ValueError(f"delta {self.delta:g}: give 1e-15 to 1")
        if not 1 <= self.rounds <= 1000:
            raise ValueError(f"rounds {self.rounds}: a cell is reported 1 to 1000 times")
        if self.rotate_every is not None and not 1 <= self.rotate_every <= MOST_EPOCHS:
            raise ValueError(f"rotate every {self.rotate_every}: give 1 to {MOST_EPOCHS} epochs")


_LONGEST = 100_000_000  # bytes
_PSEUDONYM = re.compile("[0-9a-f]{32}", re.ASCII)


def items_in(path: Path) -> NDArray[np.uint64]:
    """Return the keys of the items in a file, rising and distinct; UserError names a bad line."""
    keys = []
    for row, text in _lines(path):
        try:
            keys.append(wire.key(text))
        except ValueError as error:
            raise UserError(f"{path}: line {row}: {error}") from None
    if not keys:
        raise UserError(f"{path}: holds no item; write one item id per line")
    return np.unique(np.array(keys, np.uint64))


def pseudonyms_in(path: Path) -> list[bytes]:
    """Return the pseudonyms in a file; UserError names a bad line."""
    found = []
    for row, text in _lines(path):
        if not _PSEUDONYM.fullmatch(text.strip()):
            raise UserError(f"{path}: line {row}: a pseudonym has 32 lower-case hex characters")
        found.append(bytes.fromhex(text.strip()))
    return found


def canaries_from(texts: Sequence[str], mechanisms: Sequence[Mechanism]) -> dict[bytes, int]:
    """Return the canaries `HEX` or `HEX:LEVEL`; without a level the input is "no rating"."""
    found = {}
    hidden = any(each.adjacency is Adjacency.CELL for each in mechanisms)
    most = max((each.levels for each in mechanisms), default=0)
    for text in texts:
        name, colon, level = text.partition(":")
        if not _PSEUDONYM.fullmatch(name) or (colon and not re.fullmatch("[0-9]{1,3}", level)):
            raise ValueError(
                f"canary {text[:40]}: give a pseudonym of 32 hex characters, and :LEVEL if it "
                "rates every item at that level index"
            )
        found[bytes.fromhex(name)] = int(level) if colon else NO_RATING
        if int(level) >= most if colon else not hidden:
            raise ValueError(
                f"canary {text[:40]}: no allowed mechanism takes this input; a canary without "
                "ratings needs a mechanism that protects presence"
            )
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    path = path.expanduser()
    try:
        if path.stat().st_size > _LONGEST:
            raise UserError(f"{path}: is longer than {_LONGEST} bytes; give another file")
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; write one entry per line") from None
    for row, line in enumerate(lines, 1):
        if line:
            yield row, line
