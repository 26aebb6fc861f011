"""Lists the differences between a checkpoint and a replica: model pages and ledger fields."""

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
    """Return one sentence per difference between a checkpoint and the state of the log."""
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
    recorded = {array.name: array for array in held}
    computed = replica.model_arrays()
    found = [f"model {name}: only in the checkpoint" for name in sorted(recorded.keys() - computed)]
    found += [f"model {name}: not in the checkpoint" for name in sorted(computed.keys() - recorded)]
    for name in sorted(recorded.keys() & computed.keys()):
        array, values = recorded[name], computed[name]
        if (array.dtype, array.shape) != (values.dtype.str, values.shape):
            found.append(
                f"model {name}: checkpoint {array.dtype}{list(array.shape)}, "
                f"log {values.dtype.str}{list(values.shape)}"
            )
            continue
        digests = [page_digest(page.data) for page in pages(values)]
        differing = [
            number
            for number, digest in enumerate(digests)
            if digest != array.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        ]
        if differing:
            found.append(
                f"model {name}: {len(differing)} of {len(digests)} pages differ "
                f"({_shortened(differing)})"
            )
    return found


def _of_ledger(held: Sequence[SmallArray], own: Sequence[SmallArray]) -> list[str]:
    recorded, computed = {a.name: a for a in held}, {a.name: a for a in own}
    found = []
    for name in sorted(recorded.keys() | computed.keys()):
        before, after = recorded.get(name), computed.get(name)
        if before is None or after is None:
            found.append(f"ledger {name}: {'not' if before is None else 'only'} in the checkpoint")
        elif before != after:
            found.append(f"ledger {name}: checkpoint {_values(before)}, log {_values(after)}")
    return found


def _values(array: SmallArray) -> str:
    """Return the first elements of a small array as text."""
    values = np.frombuffer(array.data, array.dtype).tolist()
    return f"[{_shortened(values)}]"


def _shortened(numbers: Sequence[int]) -> str:
    shortened = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{shortened}, ..." if len(numbers) > _SHOWN else shortened
