"""Sources of noise: the system's never repeats, not even over a fork; a seeded one is unsafe."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from stream_app.privacy.randomness import SeededSource, SystemSource


def test_the_system_source_is_safe_and_a_seed_is_not() -> None:
    assert not SystemSource().unsafe
    assert SeededSource(1).unsafe


def test_words_are_as_many_as_asked_for_and_never_the_same() -> None:
    source = SystemSource()
    words = np.concatenate([source.words(n) for n in (0, 1, 5000)])
    assert words.dtype == np.uint64
    assert len(words) == 5001
    assert (
        len(np.unique(words)) == 5001
    )  # two of 5001 words of 64 bits are equal once in 10^12 runs


def test_a_fork_shares_no_words_with_its_parent() -> None:
    program = """
import os
from stream_app.privacy.randomness import SystemSource
source = SystemSource()
source.words(3)
child = os.fork()
os.write(1, (" ".join(map(str, source.words(4).tolist())) + "\\n").encode())
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    words = out.stdout.split()
    assert len(words) == len(set(words)) == 8


def test_a_seed_repeats_itself() -> None:
    np.testing.assert_array_equal(SeededSource(3).words(9), SeededSource(3).words(9))
    assert "_generator" not in repr(SeededSource(3))
