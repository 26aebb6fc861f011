"""The life of a rating: nine steps from the person to a list, each with what is stored and what is
left after a crash. The same steps with their files: `docs/architecture.md`."""

from __future__ import annotations

from typing import NamedTuple

from tests.pictures.svg import Drawing


class Step(NamedTuple):
    """One line of the drawing; `fill` says what is in it of the rating."""

    name: str
    happens: str
    stored: str
    crash: str
    fill: str


DEVICE, KAFKA, WORKER, READER = "device", "Kafka", "worker", "reader"
STEPS: dict[str, tuple[Step, ...]] = {
    DEVICE: (
        Step(
            "rate",
            "4 of 5 stars: a level of the\npublic scale",
            "clean rating, on this device\nalone, for its own lists",
            "nothing was sent or spent",
            "clean",
        ),
        Step(
            "randomize",
            "checks the budget, then draws once;\nrr:5:2 keeps 65 of 100",
            "nothing yet",
            "no draw has left: nothing spent",
            "clean",
        ),
        Step(
            "journal",
            "debit, event number and noised\nbytes: one record, synced to disk",
            "that record",
            "these bytes again, never\na second draw",
            "noised",
        ),
        Step(
            "outbox",
            "sends these bytes until Kafka\nhas confirmed them",
            "in the journal",
            "sends the same bytes; workers\ndrop what they have",
            "noised",
        ),
    ),
    KAFKA: (
        Step(
            "rating topic",
            "the noised event, under the\npseudonym of the device",
            "on each broker that has a copy,\nfor good unless you set a time",
            "one of three brokers may die",
            "noised",
        ),
    ),
    WORKER: (
        Step(
            "cut",
            "the clock's owner writes how far\na round of .2 s reaches",
            "the cut log, in Kafka",
            "another worker takes over\nafter 6 s",
            "noised",
        ),
        Step(
            "learn",
            "in one order on every worker;\na number seen before is dropped",
            "memory; changed pages go to\nthe state topic, in Kafka",
            "newest checkpoint, then the log:\nthe same state to the byte",
            "noised",
        ),
        Step(
            "item side",
            "links and popularity of items,\nfrom all reports together",
            "memory, and a public topic",
            "derived again from the state",
            "noised",
        ),
    ),
    READER: (
        Step(
            "list",
            "the server's, from reports; the\ndevice's, from clean ratings",
            "nothing",
            "the next worker answers\nthe query",
            "hidden",
        ),
    ),
}
_WIDTH, _TOP, _STEP, _GAP = 920, 62, 54, 10
_COLUMNS = {"name": (84, 116), "happens": (214, 240), "stored": (466, 214), "crash": (692, 216)}


def drawing() -> Drawing:
    """Return the drawing: a lane for each place, a line for each step."""
    steps = sum(map(len, STEPS.values()))
    height = _TOP + steps * _STEP + (len(STEPS) - 1) * _GAP + 44
    sheet = Drawing(_WIDTH, height, "The life of a rating")
    heads = {"happens": "what happens", "stored": "what is stored", "crash": "after a crash"}
    sheet.text(16, 24, "The life of a rating", 400, "title", bold=True)
    for column, head in heads.items():
        x, width = _COLUMNS[column]
        sheet.text(x + 8, 48, head, width, "small", bold=True, faint=True)
    y = _TOP
    for place, own in STEPS.items():
        _lane(sheet, place, y, len(own) * _STEP)
        for number, step in enumerate(own, start=1):
            gap = _GAP if number == len(own) else 0
            _step(sheet, step, y, _STEP + gap if place != READER else 0)
            y += _STEP
        if place == DEVICE:
            sheet.rule(12, y + _GAP / 2 - 1, _WIDTH - 12, y + _GAP / 2 - 1, dashed=True)
        y += _GAP
    _legend(sheet, y + 10)
    return sheet


def _lane(sheet: Drawing, place: str, y: float, high: float) -> None:
    sheet.box(12, y, 64, high - 4, "ask" if place == DEVICE else "plain")
    sheet.text(44, y + (high - 4) / 2, place, 62, "small", bold=True, anchor="middle")


def _step(sheet: Drawing, step: Step, y: float, to_next: float) -> None:
    """Draw a step; an arrow leads to the next one, so far below."""
    x, width = _COLUMNS["name"]
    sheet.block(x, y, width, _STEP - 16, step.name, "", step.fill)
    if to_next:
        sheet.arrow((x + width / 2, y + _STEP - 16), (x + width / 2, y + to_next))
    for column in ("happens", "stored", "crash"):
        x, width = _COLUMNS[column]
        lines = getattr(step, column)
        middle = y + (_STEP - 16) / 2 - (7 if "\n" in lines else 0)
        sheet.text(x + 8, middle, lines, width - 10, "small")


def _legend(sheet: Drawing, y: float) -> None:
    """Draw what the colours and the dashed line mean."""
    said = (
        (16, 270, "clean", "the clean rating is here"),
        (250, 300, "noised", "only the noised report"),
        (466, 230, "hidden", "for whoever may ask"),
    )
    for x, within, fill, text in said:
        sheet.box(x, y - 7, 20, 14, fill)
        sheet.text(x + 28, y, text, within, "small")
    sheet.text(_WIDTH - 16, y, "- - -  leaves the device", 200, "small", anchor="end")
