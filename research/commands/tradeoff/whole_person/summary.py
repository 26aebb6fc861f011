"""Both panels as tables on the terminal."""

from __future__ import annotations

from typing import Any

from stream_app.cli.output import say, table

_TITLES = {
    "errors": "RMSE of predicted ratings ({scale}) by the epsilon of a whole person",
    "lists": "nDCG@10 of lists by the epsilon of a whole person",
}
_PANEL_OF = {"popular": "lists", "EASE": "lists"}


def show(found: dict[str, Any]) -> None:
    """Print a table for each panel, and the figures to compare with."""
    for panel, title in _TITLES.items():
        rows = [row for row in found["points"] if row["panel"] == panel]
        table(
            ("mechanism", "epsilon", "measured", "spent on"),
            [
                (
                    f"{row['family']}{', ' if row['variant'] else ''}{row['variant']}",
                    f"{row['person_epsilon']:.3g}",
                    f"{row['value']:.3f}",
                    row["spent"],
                )
                for row in rows
            ],
            title=title.format(scale=found["scale"]),
        )
        for name, value in found["references"].items():
            if _PANEL_OF.get(name, "errors") == panel:
                say(f"{name}: {value:.3f}")
    say(
        f"epsilon at delta {found['delta']:g}, all reports of a person composed exactly; rr and "
        "partition leave public which items were rated"
    )
