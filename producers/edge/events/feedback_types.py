"""What a type of event means: stars, a part of a like, or that the item was seen.

    [feedback]
    rating = "value"       the event's value is a rating on the site's scale, mapped to 1 .. 5
    purchase = 5           stars on 1 .. 5
    view = "0.3 like"      a part of a like; parts add up
    note = "seen"          the item counts as seen, and nothing more

A type outside the table is refused. A site's table adds to the default one, and replaces rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from producers.ranking.clean_history import stars as stars_of
from producers.scale import Scale
from stream_app.errors import UserError

DEFAULTS: Mapping[str, float | str] = MappingProxyType(
    {
        "rating": "value",
        "purchase": 5,
        "like": 5,
        "dislike": 1,
        "cart": "0.8 like",
        "play": "0.6 like",
        "click": "0.3 like",
        "view": "0.3 like",
    }
)
CLICKS = frozenset({"click", "view", "play"})
"""Types by which an item of a list counts as clicked."""
PURCHASES = frozenset({"purchase"})
"""Types by which an item of a list counts as bought."""

MAX_TYPES = 100
_NAME = re.compile(r"[!-~]{1,64}")
_PART = re.compile(r"(0?\.[0-9]{1,6}|1|1\.0) like")
_FORMS = 'give stars from 1 to 5, "value", "seen", or a part such as "0.3 like"'
_Worth = tuple[float | None, float | None]


@dataclass(frozen=True)
class FeedbackTypes:
    """A table of types, and the scale of the site's ratings."""

    table: Mapping[str, float | str] = field(default_factory=lambda: DEFAULTS)
    scale: Scale = field(default_factory=Scale)

    def __post_init__(self) -> None:
        if len(self.table) > MAX_TYPES:
            raise UserError(f"[feedback] has {len(self.table)} types, at most {MAX_TYPES}")
        _ = self._worth

    @classmethod
    def parse(cls, table: Mapping[str, object], scale: Scale) -> FeedbackTypes:
        """Return the default table with the site's rows; UserError for a row that means nothing."""
        return cls({**DEFAULTS, **table}, scale)  # type: ignore[dict-item]  # checked below

    @cached_property
    def names(self) -> str:
        """The types, for a sentence."""
        return ", ".join(sorted(self.table))

    @cached_property
    def _worth(self) -> dict[str, _Worth | None]:
        return {name: _meaning(name, written) for name, written in self.table.items()}

    @cached_property
    def _of_value(self) -> dict[float | None, _Worth]:
        values = [] if self.scale.binned else self.scale.values.tolist()
        return {value: (stars_of(value, self.scale), None) for value in values}

    def worth(self, type: str, value: float | None) -> _Worth:
        """Return the stars and the likes of an event of a known type.

        Raises ValueError, without the value, where it has to be a rating and is none.
        """
        found = self._worth[type] or self._of_value.get(value)
        if found is None:
            number = math.nan if value is None else value
            found = stars_of(number, self.scale, "value"), None
        return found


def _meaning(name: str, written: object) -> _Worth | None:
    """Return stars and likes, neither, or None: the event's value is a rating."""
    if not _NAME.fullmatch(name):
        raise UserError("[feedback]: a type has 1 to 64 printable ASCII characters without blanks")
    if written == "value":
        return None
    if written == "seen":
        return None, None
    if type(written) in (int, float) and 1 <= written <= 5:  # type: ignore[operator]
        return float(written), None  # type: ignore[arg-type]
    if isinstance(written, str) and (found := _PART.fullmatch(written)) and float(found[1]) > 0:
        return None, float(found[1])
    raise UserError(f"[feedback] {name} = {str(written)[:30]!r}: {_FORMS}")
