"""The digest of a model: of its arrays' names, types and shapes, and of their bytes page by page.

    digest = root(spec; name:dtype:shape; digest(page 0) digest(page 1) ...)

so that the digest of a later state takes the changed pages alone (`checkpoints/state_image.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.wire.state_records import PAGE_BYTES, ArrayDigests, model_root, page_digest


def digest(spec: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of a model's arrays under the fingerprint of a state specification."""
    paged = (
        ArrayDigests(name, array.dtype.str, array.shape, _digests(array))
        for name, array in arrays.items()
    )
    return model_root(spec, paged)


def _digests(array: NDArray[Any]) -> bytes:
    return b"".join(page_digest(page.data) for page in pages(array))


def pages(array: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Return the bytes of a contiguous array page by page: views, not copies."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[at : at + PAGE_BYTES] for at in range(0, len(flat), PAGE_BYTES)]
