"""The options that name the public scope, and the refusal of a scope without a source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.errors import UsageError

ScopeOption = Annotated[
    Path | None,
    typer.Option(
        "--scope",
        metavar="FILE",
        help="Public items to report on, one a line; its SHA-256 is pinned.",
    ),
]
AcceptScopeOption = Annotated[
    str | None,
    typer.Option(
        "--accept-scope", metavar="SHA256", help="Accept another --scope than the stored one."
    ),
]
MostCellsOption = Annotated[
    int, typer.Option("--most-cells", metavar="N", min=1, help="Items that a scope may have.")
]
TrustCatalogueOption = Annotated[
    bool,
    typer.Option(
        "--trust-catalogue",
        help="Without --scope, the server's catalogue: its writers choose items.",
    ),
]


def check_scope_source(mechanism: str, scope: Path | None, *, trusted: bool) -> None:
    """Refuse a mechanism that needs a scope without exactly one source of it."""
    if (scope is None) == (not trusted):
        raise UsageError(
            f"{mechanism} reports on a public list of items: give it with --scope FILE, or take "
            "the server's with --trust-catalogue, whose writers then choose on what the budget is "
            "spent"
        )
