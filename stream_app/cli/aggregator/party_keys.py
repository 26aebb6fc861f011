"""`murmurec keys`: the keys of a party that sums what devices contribute to campaigns."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import ConfigOption, settings_from
from stream_app.cli.output import say


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


def keys(
    party: PartyOption,
    make: Annotated[bool, typer.Option("--make", help="Make them, once.")] = False,
    folder: FolderOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the public half of a party's keys, which plans and devices name; or make the keys.

    Example: murmurec keys --party a --make
    """
    from stream_app.aggregation import keys

    place = keys_folder(folder, config)
    if not make:
        say(keys.load(place / f"{party}.key").public.hex())
        return
    made = keys.make(place, keys.Role(party))
    say(f"keys       {place / f'{party}.key'}, readable by their owner alone; keep a copy")
    say(f"copies     need {party}.released beside them, as new as it is here")
    say(f"public     {made.public.hex()}")
    say(f"in         {place / f'{party}.pub'}, for the plan and for the devices' configuration")


def keys_folder(folder: Path | None, config: Path | None) -> Path:
    """Return the folder of the keys."""
    return folder or settings_from(config).data_dir / "keys"
