"""Compiled loops: arrays in, arrays out; no I/O, clock, random numbers or objects.

Every kernel is `cache=True, nogil=True`, never `fastmath` (the same log must give the same bytes on
every machine) and calls no libm function whose last bit may differ between machines.

numba caches compiled code by the file of a function and does not notice changes in functions that
it calls from other files: after an update, a worker could run a mixture of old and new.
So each version of this folder has a cache of its own, named by a digest of all sources. A given
NUMBA_CACHE_DIR is used as it is.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from numba.core import config

_HERE = Path(__file__).parent


def _cache() -> Path:
    """Return the cache folder of these sources: beside them, or in the home folder."""
    state = blake2b(digest_size=8)
    for source in sorted(_HERE.rglob("*.py")):
        state.update(source.relative_to(_HERE).as_posix().encode() + b"\0" + source.read_bytes())
    beside = _HERE / "__pycache__"
    writable = os.access(beside if beside.exists() else _HERE, os.W_OK)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (beside if writable else home / "murmurec" / "kernels") / state.hexdigest()


if not config.CACHE_DIR:
    os.environ["NUMBA_CACHE_DIR"] = str(_cache())
    config.reload_config()
