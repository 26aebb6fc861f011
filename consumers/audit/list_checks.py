"""Public lists in files: the items of a scope, the pseudonyms that are enrolled, canaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import NO_RATING
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

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
