"""What each party sees, by how the deployment protects: a matrix. The claims behind each cell:
`docs/privacy.md` ("The model", "What each mechanism protects", "Campaigns")."""

from __future__ import annotations

from typing import NamedTuple

from tests.pictures.svg import Drawing

PARTIES = ("the device", "gateway", "Kafka, worker", "party A", "party B", "any reader")


class Mode(NamedTuple):
    """A row: what it is called, what one epsilon covers, and for each party what the party holds
    (a fill) and sees."""

    name: str
    covers: str
    cells: tuple[tuple[str, str], ...]


_OWN = ("clean", "all ratings,\nthe budget")
_NONE = ("", "there is none")
_CARRIES = ("hidden", "who takes part,\nwhen, address;\nsealed boxes;\nnoisy sums")
_SUMS = ("hidden", "who takes part,\nwhen; the\nnoisy sums")
_UNIFORM = (
    "hidden",
    "who takes part,\nwhen; a uniform\nrandom share of\neach vector; the\nnoisy sums",
)
_LISTS = ("noised", "the public item\nside; the list\nof a pseudonym,\nif it may ask")
_ASKED = ("noised", "what Kafka sees;\nwho asks for\nwhich list")
MODES = (
    Mode(
        "local: the value",
        "by rr, partition.\nOne epsilon covers\nthe value of one\nrating",
        (
            _OWN,
            _ASKED,
            ("noised", "pseudonym, item,\nday, time and\naddress; the\nnoised value"),
            *(_NONE, _NONE, _LISTS),
        ),
    ),
    Mode(
        "local: presence",
        "by like, cell.\nOne epsilon covers\none cell: rated or\nnot, and its value",
        (
            _OWN,
            _ASKED,
            ("noised", "pseudonym, day,\naddress; noised\ncells of a public\nscope, with fakes"),
            *(_NONE, _NONE, _LISTS),
        ),
    ),
    Mode(
        "split",
        "One epsilon covers\nall that a person\never rated, if one\nparty is honest",
        (_OWN, _CARRIES, _CARRIES, _UNIFORM, _UNIFORM, _SUMS),
    ),
    Mode(
        "central",
        "One epsilon covers\nall that a person\never rated, but for\nthe trusted party",
        (
            *(_OWN, _CARRIES, _CARRIES),
            ("clean", "who takes part,\nwhen; the vector\nof each device"),
            *(_NONE, _SUMS),
        ),
    ),
)
_WIDTH, _TOP, _HIGH, _GAP = 960, 78, 94, 6
_HEAD = 154


def drawing() -> Drawing:
    """Return the drawing: a row a mode, a column a party."""
    sheet = Drawing(_WIDTH, _TOP + len(MODES) * (_HIGH + _GAP) + 66, "What each party sees")
    sheet.text(16, 24, "What each party sees", 400, "title", bold=True)
    wide = (_WIDTH - _HEAD - 20) / len(PARTIES)
    for number, party in enumerate(PARTIES):
        x = _HEAD + number * wide + (wide - _GAP) / 2
        sheet.text(x, 58, party, wide - 8, bold=True, anchor="middle")
    for row, mode in enumerate(MODES):
        y = _TOP + row * (_HIGH + _GAP)
        sheet.text(16, y + 12, mode.name, _HEAD - 18, "head", bold=True)
        sheet.text(16, y + 33, mode.covers, _HEAD - 18, "small", faint=True)
        for number, (fill, seen) in enumerate(mode.cells):
            x = _HEAD + number * wide
            if fill:
                sheet.block(x, y, wide - _GAP, _HIGH, "", seen, fill)
            else:
                middle = x + (wide - _GAP) / 2
                sheet.text(middle, y + _HIGH / 2, seen, wide, "small", faint=True, anchor="middle")
    _legend(sheet, _TOP + len(MODES) * (_HIGH + _GAP) + 14)
    return sheet


def _legend(sheet: Drawing, y: float) -> None:
    """Draw what the colours mean, and what adds up."""
    said = (
        (16, "clean", "clean ratings, or a vector of them"),
        (290, "noised", "noised reports: those of one person add up"),
        (630, "hidden", "of ratings, only what the epsilon allows"),
    )
    for x, fill, text in said:
        sheet.box(x, y - 7, 20, 14, fill)
        sheet.text(x + 28, y, text, _WIDTH - x - 40, "small")
    rest = (
        "Parties A and B together see each device's vector. Whoever holds the device, or hosts its "
        "page, sees what is rated there."
    )
    sheet.text(16, y + 26, rest, _WIDTH - 32, "small", faint=True)
