"""The tables of docs/scale.md, from `research/scale/`.

python -m tests.scale_page                 writes them
python -m tests.scale_page NAME=VALUE ..   prints them with other numbers of `costs.py`, the next
                                           step, and a simulated run beside its arithmetic
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from research.privacy_page import filled
from research.scale.arithmetic import Plan, Population, fewest, next_step
from research.scale.costs import changed
from research.scale.simulation import Failure, Simulation
from tests.reference_page import table

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
POPULATIONS = (1e6, 1e5), (1e8, 1e6), (1e8, 1e7), (1e9, 1e7), (1e9, 1e8)
SIMULATED = 1e8, 1e6
FEWEST = 1e5


def plans(values: dict[str, float]) -> list[Plan]:
    """Return the plan of each population."""
    return [fewest(Population(*size, *changed(values))) for size in POPULATIONS]


def scale(values: dict[str, float] | None = None) -> str:
    """Return a row for each population."""
    head = (
        "devices/items", "shards", "GB", "core", "MB/s in/sent", "brokers/partitions", "s late",
        "$ a month", "limit",
    )  # fmt: skip
    rows = [
        (
            f"{_power(plan.people.devices)}/{_power(plan.people.items)}",
            f"{plan.shards:,}", f"{plan.memory / 1e9:.1f}", f"{plan.busy:.2f}",
            f"{plan.read / 1e6:.1f}/{plan.sent / 1e6:,.0f}",
            f"{plan.brokers}/{plan.partitions:,}", f"{plan.lag:,.0f}", f"{plan.dollars:,.0f}",
            f"{plan.first} {plan.worst:.2f}",
        )
        for plan in plans(values or {})
    ]  # fmt: skip
    return table(head, rows)


def most_devices(items: float, values: dict[str, float]) -> float:
    """Return how many devices, within a twentieth, have a plan within all limits."""
    few, many = FEWEST, 1e12
    while many / few > 1.05:
        middle = (few * many) ** 0.5
        fits = fewest(Population(middle, items, *changed(values))).worst <= 1
        few, many = (middle, many) if fits else (few, middle)
    return few


def breaks(values: dict[str, float] | None = None) -> str:
    """Return up to how many devices each number of items has a plan, what breaks then, and the next
    step of the largest."""
    found = []
    for items in sorted({size[1] for size in POPULATIONS}):
        most = most_devices(items, values or {})
        first = fewest(Population(most * 1.05, items, *changed(values or {}))).first
        at_most = f"{most / 1e6:,.0f} million" if most > FEWEST else "none"
        found.append(f"{_power(items)} items: {at_most} ({first})")
    largest = fewest(Population(*max(POPULATIONS), *changed(values or {})))
    step = next_step(largest)
    return (
        f"Devices at most: {'; '.join(found)}.\n\nNext step, {_power(largest.people.devices)}/"
        f"{_power(largest.people.items)}: {step.exchange:.2f} of a core, {step.read / 1e6:.0f} "
        f"MB/s, {step.memory / 1e9:.0f} GB, {step.item_shards} item shards.\n"
    )


def beyond(values: dict[str, float]) -> str:
    """Return a row for each population with the next step."""
    head = (
        "devices/items", "every s", "summers", "exchange core", "MB/s in", "item shards",
        "GB each", "ms a query", "MB/s of queries",
    )  # fmt: skip
    rows = []
    for plan in plans(values):
        step = next_step(plan)
        rows.append((
            f"{_power(plan.people.devices)}/{_power(plan.people.items)}", f"{step.interval:.0f}",
            f"{step.summers}", f"{step.exchange:.3f}", f"{step.read / 1e6:.1f}",
            f"{step.item_shards}", f"{step.memory / 1e9:.1f}", f"{step.query_seconds * 1e3:.1f}",
            f"{step.query_bytes / 1e6:.1f}",
        ))  # fmt: skip
    return table(head, rows)


def simulated(values: dict[str, float], seconds: float = 600.0) -> str:
    """Return a run, in which a worker is killed after 100 s, beside the arithmetic."""
    plan = fewest(Population(*SIMULATED, *changed(values)))
    down = plan.people.assumed.session_seconds
    shards = Simulation(plan, failures=[Failure(0, 100.0, down)]).run(seconds)
    others = shards[1:]
    stale = sorted(each for shard in others for each in shard.stale)
    rows = [
        (
            "busiest core",
            f"{max(shard.busy for shard in others) / seconds:.3f}",
            f"{plan.busy:.3f}",
        ),
        ("exchange MB/s in", f"{others[0].read / seconds / 1e6:.2f}", f"{plan.read / 1e6:.2f}"),
        ("killed shard, s late", f"{shards[0].lag():.1f}", f"{plan.lag:.1f}"),
        ("others, s late", f"{max(shard.lag() for shard in others):.2f}", ""),
        ("oldest rating of a change merged, s, median", f"{stale[len(stale) // 2]:.2f}", ""),
        ("the same, longest", f"{stale[-1]:.2f}", ""),
    ]
    return table((f"{plan.shards} shards", "simulated", "arithmetic"), rows)


def _power(number: float) -> str:
    return f"1e{len(f'{number:.0f}') - 1}"


TABLES: dict[str, Callable[[], str]] = {"scale": scale, "breaks": breaks}


if __name__ == "__main__":
    if pairs := [word.partition("=") for word in sys.argv[1:]]:
        given = {name: float(value) for name, _, value in pairs}
        print(scale(given), breaks(given), beyond(given), simulated(given), sep="\n")
    else:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), TABLES), "utf-8")
