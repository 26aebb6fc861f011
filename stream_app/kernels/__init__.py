"""Compiled loops: arrays in, arrays out; no I/O, clock, random numbers or objects.

Every kernel is `cache=True, nogil=True`, never `fastmath` (the same log must give the same bytes on
every machine) and calls no libm function whose last bit may differ between machines.

numba caches compiled code by the file of a function and does not notice changes in functions that
it calls from other files: after an update, a worker could run a mixture of old and new.
So each version of this folder has a cache of its own, named by a digest of all sources. A given
NUMBA_CACHE_DIR is used as it is. A user who can write none of these folders compiles into a private
one, which goes with the process unless it is killed.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path

from numba.core import config

_HERE = Path(__file__).parent


def _cache() -> Path | None:
    """Return the cache folder of these sources: beside them, or in the home folder; None where
    neither can be written."""
    state = blake2b(digest_size=8)
    for source in sorted(_HERE.rglob("*.py")):
        state.update(source.relative_to(_HERE).as_posix().encode() + b"\0" + source.read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 (Path raises without a home)
    beside = _writable(_HERE / "__pycache__" / state.hexdigest())
    if beside is None and home.is_absolute():
        return _writable(home / "murmurec" / "kernels" / state.hexdigest())
    return beside


def _writable(folder: Path) -> Path | None:
    """Return a folder that takes files, made where it is absent; None for any other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def _temporary() -> Path:
    """Return a new private folder, which the end of this process removes; say so on stderr."""
    folder, owner = Path(tempfile.mkdtemp(prefix="murmurec-kernels-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not at the end of a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    logging.getLogger(__name__).warning(
        "no cache folder can be written, so kernels are compiled into %s at every start: set "
        "NUMBA_CACHE_DIR to a folder of this user",
        folder,
    )
    return folder


_found = _writable(Path(config.CACHE_DIR)) if config.CACHE_DIR else _cache()
os.environ["NUMBA_CACHE_DIR"] = str(_found or _temporary())
config.reload_config()
