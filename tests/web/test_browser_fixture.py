"""The browser of the tests: it runs modules, reports their errors, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.browser import serving

PAGE = "<!doctype html><title>page</title><script type=module src=m.js></script>"


def test_a_module_runs_in_a_secure_context_with_storage(page, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "m.js").write_text("export const n = 2n ** 64n; document.title = String(n)")
    with serving(tmp_path) as site:
        page.goto(site)
        page.wait_for_function(f"document.title === '{2**64}'")
        assert page.evaluate("[isSecureContext, !!crypto.subtle, !!indexedDB]") == [True] * 3


def test_a_browser_that_is_missing_fails_with_what_to_install(monkeypatch) -> None:
    from tests.fixtures.browser import chromium

    monkeypatch.setenv("MURMUREC_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        chromium()
