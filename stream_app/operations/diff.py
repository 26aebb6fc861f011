"""What differs between two states, by name: arrays of the model page by page, fields of the
ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_app.state.digests import pages
from stream_app.state.replica import Replica
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    ArrayPages,
    Manifest,
    SmallArray,
    page_digest,
)

_SHOWN = 4


def differences(manifest: Manifest, replica: Replica) -> list[str]:
    """Return in words how a checkpoint differs from the state that the log leads to."""
    if manifest.design != replica.spec.digest:
        return [f"design {manifest.design} of the checkpoint is not {replica.spec.digest}"]
    found = []
    if manifest.end_offsets != replica.end_offsets:
        found.append(
            f"positions: checkpoint {list(manifest.end_offsets)}, log {list(replica.end_offsets)}"
        )
    found += _of_model(manifest.arrays, replica)
    found += _of_ledger(manifest.ledger_arrays, replica.ledger.small_arrays())
    if not found and manifest.model != replica.model_digest():
        found.append(f"model digest: checkpoint {manifest.model}, log {replica.model_digest()}")
    if not found and manifest.ledger != replica.ledger_digest():
        found.append(f"ledger digest: checkpoint {manifest.ledger}, log {replica.ledger_digest()}")
    return found


def _of_model(held: Sequence[ArrayPages], replica: Replica) -> list[str]:
    theirs = {array.name: array for array in held}
    ours = replica.model_arrays()
    found = [f"model {name}: only in the checkpoint" for name in sorted(theirs.keys() - ours)]
    found += [f"model {name}: not in the checkpoint" for name in sorted(ours.keys() - theirs)]
    for name in sorted(theirs.keys() & ours.keys()):
        array, mine = theirs[name], ours[name]
        if (array.dtype, array.shape) != (mine.dtype.str, mine.shape):
            found.append(
                f"model {name}: checkpoint {array.dtype}{list(array.shape)}, "
                f"log {mine.dtype.str}{list(mine.shape)}"
            )
            continue
        digests = [page_digest(page.data) for page in pages(mine)]
        other = [
            number
            for number, digest in enumerate(digests)
            if digest != array.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        ]
        if other:
            found.append(
                f"model {name}: {len(other)} of {len(digests)} pages differ ({_shortened(other)})"
            )
    return found


def _of_ledger(theirs: Sequence[SmallArray], ours: Sequence[SmallArray]) -> list[str]:
    held, mine = {a.name: a for a in theirs}, {a.name: a for a in ours}
    found = []
    for name in sorted(held.keys() | mine.keys()):
        one, other = held.get(name), mine.get(name)
        if one is None or other is None:
            found.append(f"ledger {name}: {'not' if one is None else 'only'} in the checkpoint")
        elif one != other:
            found.append(f"ledger {name}: checkpoint {_values(one)}, log {_values(other)}")
    return found


def _values(array: SmallArray) -> str:
    """Return the numbers of a small array in few words."""
    values = np.frombuffer(array.data, array.dtype).tolist()
    return f"[{_shortened(values)}]"


def _shortened(numbers: Sequence[int]) -> str:
    shortened = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{shortened}, ..." if len(numbers) > _SHOWN else shortened
