"""Neighbours over noised profiles of a file's users, for `evaluate --mechanism blip`."""

from __future__ import annotations

import numpy as np

from producers.datasets.load import Dataset
from producers.device import requests as device
from research.profile_quality import ProfileResult, evaluate_profiles
from stream_app.cli import output
from stream_app.errors import UserError
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.wire import parse_item

_PARTS = 4


def measured(dataset: Dataset, mechanism: ProfileMechanism, seed: int) -> ProfileResult:
    """Measure how useful the profiles of a data set's users are to their neighbours."""
    _, users = np.unique(dataset.users, return_inverse=True)
    names, rows = np.unique(dataset.items, return_inverse=True)
    done = 0
    with output.refusing(UserError), output.progress("profiles") as advance:

        def add(parts: int) -> None:
            nonlocal done
            done += parts
            advance(done, _PARTS)

        keys = device.item_keys([parse_item(str(name)) for name in names.tolist()])
        return evaluate_profiles(
            users.astype(np.uint64), keys[rows], mechanism, seed=seed, progress=add
        )


def show(result: ProfileResult) -> None:
    """Print a result as a table."""
    rows = [
        ("users, items", f"{result.users:,}, {result.items:,}"),
        ("items of a profile, mean", f"{result.mean_size:.1f}"),
        ("bytes of a profile", f"{result.profile_bytes:,}"),
        ("recall of the 10 nearest", f"{result.recall:.3f} (chance {result.chance:.3f})"),
        ("precision@10 by neighbours", f"{result.precision:.3f}"),
        ("the same by neighbours in the clear", f"{result.precision_clear:.3f}"),
        ("the same by released popularity", f"{result.precision_popular_released:.3f}"),
        ("the same by clear popularity", f"{result.precision_popular:.3f}"),
        ("profiles released per second", f"{result.profiles_per_second:,.0f}"),
    ]
    output.table(("", ""), rows, title=f"neighbours, {result.mechanism}")
