"""A worker leaves the cores to the stream: its linear algebra uses one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PRODUCT = """
import os
from stream_app.cli.server.worker import _one_blas_thread
_one_blas_thread()
import numpy
numpy.ones((600, 600)) @ numpy.ones((600, 600))
print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_linear_algebra_has_one_thread_unless_the_environment_says_otherwise() -> None:
    def printed(**more: str) -> str:
        variables = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")} | more
        command = [sys.executable, "-c", _PRODUCT]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert printed() == "1 1"
    assert printed(OPENBLAS_NUM_THREADS="2").endswith(" 2")
