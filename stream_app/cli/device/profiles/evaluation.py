"""How good noised profiles are on a file of ratings, for `murmurec evaluate --mechanism blip`."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from producers.datasets.load import Dataset
from producers.device import requests as device
from stream_app.errors import UserError
from stream_app.evaluation.profiles import ProfileResult, evaluate_profiles
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.wire import parse_item

PARTS = 4


def measured(dataset: Dataset, mechanism: ProfileMechanism, seed: int) -> ProfileResult:
    """Return what profiles of a data set's users are good for; refuses what cannot be evaluated."""
    _, users = np.unique(dataset.users, return_inverse=True)
    names, places = np.unique(dataset.items, return_inverse=True)
    console = Console(stderr=True)
    try:
        keys = device.item_keys([parse_item(str(name)) for name in names.tolist()])
        with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
            task = bar.add_task("profiles", total=PARTS)
            return evaluate_profiles(
                users.astype(np.uint64),
                keys[places],
                mechanism,
                seed=seed,
                progress=lambda parts: bar.advance(task, parts),
            )
    except ValueError as error:
        raise UserError(str(error)) from None


def show(result: ProfileResult) -> None:
    """Print a result as a table."""
    table = Table("", "", title=f"neighbours, {result.mechanism}")
    table.add_row("users, items", f"{result.users:,}, {result.items:,}")
    table.add_row("items of a profile, mean", f"{result.mean_size:.1f}")
    table.add_row("bytes of a profile", f"{result.profile_bytes:,}")
    table.add_row("recall of the 10 nearest", f"{result.recall:.3f} (chance {result.chance:.3f})")
    table.add_row("precision@10 by neighbours", f"{result.precision:.3f}")
    table.add_row("the same by neighbours in the clear", f"{result.precision_clear:.3f}")
    table.add_row("the same by released popularity", f"{result.precision_popular_released:.3f}")
    table.add_row("the same by clear popularity", f"{result.precision_popular:.3f}")
    table.add_row("profiles released per second", f"{result.profiles_per_second:,.0f}")
    Console().print(table)
