"""How many kernels numba compiles, and how long a thread has been inside compiled kernels.

    result = timed(kernel, *arguments)       kernel(*arguments), and its time is added up

A timed call costs .2 us more. Kernels that learn from the log are timed, answers to queries not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from numba.core import event


class CompilationCount(event.Listener):
    """A context in which compilations are counted, in all threads; loads from the cache are not.

    `kernels` is the number of kernels whose compilation has begun; `on_first` is called with the
    first of them, in the thread that compiles.
    """

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        self.kernels = 0
        self._on_first = on_first

    def on_start(self, _: event.Event) -> None:
        """Count the kernel."""
        self.kernels += 1
        if self.kernels == 1:
            self._on_first()

    def on_end(self, _: event.Event) -> None:
        """Ignore the end of a compilation."""

    def __enter__(self) -> CompilationCount:
        event.register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister("numba:compile", self)


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
