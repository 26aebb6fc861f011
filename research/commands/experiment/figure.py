"""The pictures of an experiment: quality against epsilon, and errors while a stream is learned.

Epsilons of different adjacencies do not compare: each has panels of its own. Lines across a panel
are what is known without an epsilon: baselines, and a model without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research.commands.experiment.grid import ITEM_MEANS, PERSON, SPLITS
from research.commands.experiment.summary import Group
from research.commands.pictures import GREY, TEXT, dress, number, save, sheet, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from stream_app.evaluation.results import ExperimentRow

_EPSILON = {
    "value": "epsilon of the stars of one rating",
    "cell": "epsilon of one cell: rated or not, and the stars",
    PERSON: "epsilon of a whole person, delta 1e-6",
    "nothing": "no epsilon: nothing is protected",
}
_MEASURES = {
    "rmse": "RMSE: lower is better",
    "log_loss": "log-loss of a like, nats: lower is better",
    "ndcg": "nDCG@10: higher is better",
}
_BASELINES = {"rmse": ITEM_MEANS, "log_loss": "items' shares of likes", "ndcg": "popular"}
Panel = tuple[str, str]  # measure, and the split of lists


def draw_quality(groups: Sequence[Group], title: str, place: Path) -> None:
    """Write a panel for each measure and split, by adjacency, as PNG."""
    panels = list(dict.fromkeys(_panel_of(each) for each in groups))
    adjacencies = [each for each in _EPSILON if any(_noised(group, each) for group in groups)]
    places = [
        (shown, panel, adjacency)
        for panel in panels
        for adjacency in adjacencies or ["nothing"]
        if (shown := [group for group in groups if _panel_of(group) == panel])
        and (adjacency == "nothing" or any(_noised(group, adjacency) for group in shown))
    ]
    columns = min(3 if len(places) not in (2, 4) else 2, len(places))
    rows = -(-len(places) // columns)
    figure = sheet(5.2 * columns, 1 + 3.7 * rows)
    drawn = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    colors = {name: place for place, name in enumerate(dict.fromkeys(map(_line_of, groups)))}
    named: dict[str, Any] = {}
    for axes, (shown, panel, adjacency) in zip(drawn, places, strict=False):
        _draw_panel(axes, shown, adjacency, panel, colors)
        lines, names = axes.get_legend_handles_labels()
        named.update(zip(names, lines, strict=True))
    for axes in drawn[len(places) :]:
        axes.set_visible(False)
    if named:
        lines, names = list(named.values()), list(named)
        figure.legend(lines, names, loc="outside lower left", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=TEXT + 2)
    save(figure, place)


def _draw_panel(
    axes: Axes, groups: Sequence[Group], adjacency: str, panel: Panel, colors: dict[str, int]
) -> None:
    measure, split = panel
    lines: dict[str, list[Group]] = {}
    for group in groups:
        if _noised(group, adjacency):
            lines.setdefault(_line_of(group), []).append(group)
    epsilons = sorted({row.epsilon or 0 for each in lines.values() for row in _firsts(each)})
    for name, line in lines.items():
        line.sort(key=lambda group: group.first.epsilon or 0)
        ends = [interval for group in line if (interval := group.interval(measure))]
        axes.errorbar(
            [row.epsilon or 0 for row in _firsts(line)],
            [end.mean for end in ends], [end.half for end in ends],
            label=name, capsize=3, **style(colors[name]),
        )  # fmt: skip
    tests = sorted({group.first.split for group in groups if _noised(group, adjacency)})
    levels = sorted(_levels(groups, tests, measure), key=lambda level: level[1])
    for place, (name, value) in enumerate(levels):
        side, align = ((0.99, "right"), (0.01, "left"))[place % 2]  # two levels may be close
        axes.axhline(value, color=GREY, lw=1, ls=(0, (5, 4)), zorder=1)
        axes.annotate(
            f"{name} {value:.3f}", (side, value), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha=align, va="bottom", fontsize=TEXT - 2, color=GREY,
            zorder=1.5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )  # fmt: skip
    if epsilons:
        axes.set_xscale("log")
    else:
        axes.set_xticks([])
    dress(axes, f"Lists, {split} split" if split else f"Ratings, {', '.join(tests)}",
          _EPSILON[adjacency], _MEASURES[measure])  # fmt: skip
    if epsilons:
        axes.set_xticks(epsilons, [number(each) for each in epsilons])
        axes.minorticks_off()


def _levels(groups: Sequence[Group], tests: Sequence[str], measure: str) -> list[tuple[str, float]]:
    """Return the names and values that have no epsilon, of the tests that a panel shows."""
    found: dict[str, float] = {}
    for group in groups:
        row, mean = group.first, group.interval(measure)
        if tests and row.split not in tests:
            continue
        if row.epsilon is None and mean:
            clean = row.mechanism.partition(":")[2]
            found[f"{row.model}, no noise" if clean else row.model] = mean.mean
        if baseline := group.interval("baseline"):
            found.setdefault(_BASELINES[measure], baseline.mean)
    return list(found.items())


def draw_learning(groups: Sequence[Group], title: str, place: Path) -> bool:
    """Write the error of each part of the stream against the ratings seen, as PNG; return whether
    there is any."""
    lines = [each for each in groups if each.first.rmse_parts]
    if not lines:
        return False
    figure = sheet(9.5, 5)
    axes = figure.subplots()
    for place_of, each in enumerate(lines):
        parts, learned = len(each.first.rmse_parts), each.first.learned or 0
        means = [
            sum(part) / len(part) for part in zip(*(r.rmse_parts for r in each.rows), strict=True)
        ]
        seen = [learned * (part + 0.5) / parts for part in range(parts)]
        name = f"{each.first.model} {each.first.mechanism}".removesuffix(" none")
        axes.plot(seen, means, label=name, **style(place_of))
    axes.set_xlim(left=0)
    dress(axes, title, "ratings seen", "RMSE of a twentieth of the stream")
    axes.legend(fontsize=TEXT - 1, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, place)
    return True


def _panel_of(group: Group) -> Panel:
    row = group.first
    if row.split in SPLITS:
        return "ndcg", row.split
    return ("rmse" if row.rmse is not None else "log_loss"), ""


def _line_of(group: Group) -> str:
    return f"{group.first.model}, {group.first.mechanism.partition(':')[0]}"


def _noised(group: Group, adjacency: str) -> bool:
    return group.first.adjacency == adjacency and group.first.epsilon is not None


def _firsts(groups: Sequence[Group]) -> list[ExperimentRow]:
    return [group.first for group in groups]
