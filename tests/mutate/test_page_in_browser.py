"""The HTML report in a browser: it shows itself, complains of nothing and asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chromium import BINARY, Browser

SHOWN = """
    (() => {
      const app = document.querySelector("mutation-test-report-app");
      return [Object.keys(app.report.files), app.shadowRoot !== null && app.shadowRoot.textContent.trim().length > 0];
    })()
"""


@pytest.mark.skipif(BINARY is None, reason="no Chromium here")
def test_no_error_on_the_console_and_no_request_to_another_host(toy: Any, tmp_path: Path) -> None:
    assert toy.mutate("--mutate-report=html:page.html").code == 0
    browser = Browser(tmp_path / "profile")
    try:
        tab = browser.tab()
        tab.open((toy.root / "page.html").as_uri())
        assert tab.ask(SHOWN) == [["toy/core.py"], True]
        assert tab.ask("document.querySelectorAll('td.cell.kill').length") == 1
        assert tab.complaints() == []
        # The page itself, and data: or blob: parts that it carries.
        asked = [url for url in tab.requests() if not url.startswith(("data:", "blob:"))]
        assert asked == [(toy.root / "page.html").as_uri()]
    finally:
        browser.close()
