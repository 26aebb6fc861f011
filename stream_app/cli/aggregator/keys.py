"""`murmurec keys`: the keys of a party that sums what devices contribute to campaigns."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.commands import Commands
from stream_app.cli.options import ConfigOption, settings_from
from stream_app.cli.output import say

app = Commands(
    help="Make and show the keys of a party of campaigns. Example: murmurec keys make --party a",
)


class PartyName(StrEnum):
    """Which party: one of the two of a split campaign, or the trusted one alone."""

    a = "a"
    b = "b"
    central = "central"


PartyOption = Annotated[
    PartyName,
    typer.Option("--party", help="a or b: one of two; central: the only one, which is trusted."),
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder", metavar="FOLDER", help="Where the keys are (default: keys in data_dir)."
    ),
]


@app.command()
def make(party: PartyOption, folder: FolderOption = None, config: ConfigOption = None) -> None:
    """Make the keys of a party, once; print the public half, which plans and devices name.

    Example: murmurec keys make --party a
    """
    from stream_app.aggregation import keys

    place = keys_folder(folder, config)
    made = keys.make(place, keys.Role(party))
    say(f"keys       {place / f'{party}.key'}, readable by their owner alone; keep a copy")
    say(f"copies     need {party}.released beside them, as new as it is here")
    say(f"public     {made.public.hex()}")
    say(f"in         {place / f'{party}.pub'}, for the plan and for the devices' configuration")


@app.command()
def show(party: PartyOption, folder: FolderOption = None, config: ConfigOption = None) -> None:
    """Print the public half of a party's keys.

    Example: murmurec keys show --party a
    """
    from stream_app.aggregation import keys

    say(keys.load(keys_folder(folder, config) / f"{party}.key").public.hex())


def keys_folder(folder: Path | None, config: Path | None) -> Path:
    """Return the folder of the keys."""
    return folder or settings_from(config).data_dir / "keys"
