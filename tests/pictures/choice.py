"""The choice of a mode as a tree: three questions, four answers (`docs/start.md`)."""

from __future__ import annotations

from tests.pictures.svg import Drawing

_WIDTH, _HEIGHT = 920, 484
_ASKED = (
    (60, "Does the server know anyway which items a user had,\nor do items say nothing sensitive?"),
    (186, "Are there two parties who do not collude,\nor one that is trusted?"),
    (312, "Is it enough to know what is liked?"),
)
_ANSWERS = (
    (
        *("rr:5:2, the default", "noised"),
        "hides how a user rated, not what; partition learns more\n"
        "up to an epsilon of 2. Lists come from the server, or\n"
        "from the device, which ranks by the true history",
    ),
    (
        *("campaigns: split (or central)", "hidden"),
        "one epsilon for everything that a person ever rated.\nLists are made on the device",
    ),
    (
        *("like", "noised"),
        "hides that an item was rated, too, with the least noise.\n"
        "Below thousands of devices at epsilon 1, one to three\n"
        "thousand at 2, popular items are served",
    ),
)
_LAST = (
    *("cell", "noised"),
    "hides the same, and learns stars; at equal epsilon its\n"
    "lists are worse. Likes and stars are two deployments",
)
_LEFT, _ASK, _RIGHT, _ANSWER = 16, 390, 480, 424
_HIGH = 82


def drawing() -> Drawing:
    """Return the drawing: questions on the left, answers on the right of each."""
    sheet = Drawing(_WIDTH, _HEIGHT, "Which mode to choose")
    sheet.text(16, 28, "Which mode to choose", 400, "title", bold=True)
    middle = _LEFT + _ASK / 2
    for number, ((y, question), (name, fill, text)) in enumerate(
        zip(_ASKED, _ANSWERS, strict=True)
    ):
        sheet.box(_LEFT, y, _ASK, _HIGH, "ask")
        lines = question.count("\n")
        sheet.text(middle, y + _HIGH / 2 - 8 * lines, question, _ASK - 8, anchor="middle")
        sheet.block(_RIGHT, y, _ANSWER, _HIGH, name, text, fill)
        sheet.arrow((_LEFT + _ASK, y + _HIGH / 2), (_RIGHT, y + _HIGH / 2))
        sheet.text(_LEFT + _ASK + 34, y + _HIGH / 2 - 12, "yes", 40, "small", anchor="middle")
        if number < len(_ASKED) - 1:
            sheet.arrow((middle, y + _HIGH), (middle, _ASKED[number + 1][0]))
            sheet.text(middle + 10, y + _HIGH + 23, "no", 40, "small")
    _last(sheet, middle)
    return sheet


def _last(sheet: Drawing, middle: float) -> None:
    """Draw the answer below the last question."""
    y = _ASKED[-1][0] + _HIGH
    name, fill, text = _LAST
    top = y + 20
    sheet.arrow((middle, y), (middle, top + 26), (_RIGHT, top + 26))
    sheet.text(middle + 10, y + 20, "no: stars, too", 110, "small")
    sheet.block(_RIGHT, top - 6, _ANSWER, 62, name, text, fill)
