"""Compiled code is kept apart for each state of the sources: an update never runs a mixture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from numba.core import config

import stream_app.kernels as kernels


def test_a_changed_source_has_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_HERE", tmp_path)
    (tmp_path / "caller.py").write_text("one")
    (tmp_path / "called.py").write_text("two")
    before = kernels._cache()
    assert kernels._cache() == before
    (tmp_path / "called.py").write_text("three")
    assert kernels._cache() != before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_an_install_that_cannot_be_written_to_keeps_its_cache_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setattr(kernels, "_HERE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert kernels._cache().is_relative_to("/somewhere/murmurec")


def test_numba_uses_it() -> None:
    assert os.environ["NUMBA_CACHE_DIR"] == config.CACHE_DIR
