"""A worker leaves the cores to the stream and gives memory back: one thread of linear algebra, and
large arrays in blocks of their own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from stream_app.cli.server.worker import _without_start

_PRODUCT = """
import os
from stream_app.cli.options import one_blas_thread
one_blas_thread()
import numpy
numpy.ones((600, 600)) @ numpy.ones((600, 600))
print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
"""

_FREED = """
import numpy
from stream_app.cli.server.worker import _return_large_blocks
{call}
for _ in range(2):
    del_me = numpy.empty(24 << 20, numpy.uint8)
    del del_me
print(numpy.empty(8 << 20, numpy.uint8).ctypes.data % 4096)
"""
_OWN_BLOCK = "16"  # a block of its own begins a page, after the header of the C library


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a property of glibc")
def test_large_arrays_are_blocks_of_their_own_after_larger_ones_were_freed() -> None:
    def printed(call: str) -> str:
        command = [sys.executable, "-c", _FREED.format(call=call)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert printed("_return_large_blocks()") == _OWN_BLOCK


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_linear_algebra_has_one_thread_unless_the_environment_says_otherwise() -> None:
    def printed(**more: str) -> str:
        variables = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")} | more
        command = [sys.executable, "-c", _PRODUCT]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert printed() == "1 1"
    assert printed(OPENBLAS_NUM_THREADS="2").endswith(" 2")


def test_the_start_of_a_worker_of_several_shards_is_not_repeated_by_its_processes() -> None:
    words = ["worker", "--from-snapshot", "--rebuild", "--prefix", "p", "--rebuild", "--accept-gap"]
    words += ["--from=last=1000", "--from", "latest", "-X", "a=b", "--reseal", "--group=g"]
    kept = ["worker", "--prefix", "p", "-X", "a=b", "--group=g"]
    assert _without_start(words) == kept
    assert _without_start(kept) == kept
