"""How long a thread has been inside compiled kernels.

    result = timed(kernel, *arguments)       kernel(*arguments), and its time is added up

A call costs .2 us more. Only what learns from the log is timed: answers to queries are not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class _Spent(threading.local):
    seconds = 0.0


_spent = _Spent()


def timed(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a kernel and add its time to that of this thread."""
    began = time.perf_counter()
    result = kernel(*arguments)
    _spent.seconds += time.perf_counter() - began
    return result


def seconds_in_kernels() -> float:
    """Return how long this thread has been inside timed kernels."""
    return _spent.seconds
