"""The built site in a browser: every page at two widths, light and dark. `make docs-check` runs this; it takes minutes.

Set TEACHKV_SITE to the folder of a built site to skip the build.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from chromium import BINARY, Chromium

pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BINARY is None, reason="no Chromium here")]

ROOT = Path(__file__).resolve().parent.parent.parent
BROWSERS = 2
IN_PAGE = """(() => {
  const silent = [...document.images].filter((i) => !i.alt && i.closest("article")).map((i) => i.src);
  const named = (s) => s.getAttribute("aria-label") || s.getAttribute("aria-labelledby") || s.querySelector("title");
  const mute = [...document.querySelectorAll("article svg[role=img]")].filter((s) => !named(s)).length;
  const raw = [...document.querySelectorAll("[data-tkv-trace]:not(.tkv-player)")].length;
  return { silent, mute, raw, players: document.querySelectorAll(".tkv-player").length };
})()"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "TEACHKV_SITE" in os.environ:
        return Path(os.environ["TEACHKV_SITE"])
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    tab = Chromium(tmp_path_factory.mktemp("profile"))
    yield tab
    tab.close()


def names(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")


def test_every_page_at_both_widths_in_both_schemes(site: Path, base: str, tmp_path: Path) -> None:
    """No error, no other host, no text alternative missing, nothing wider than the window, dark is dark."""
    found = names(site)
    assert len(found) > 200, "the guards have a page each"
    with ThreadPoolExecutor(BROWSERS) as pool:
        shares = [(found[n::BROWSERS], base, tmp_path / str(n)) for n in range(BROWSERS)]
        faults = [fault for share in pool.map(lambda share: list(walk(*share)), shares) for fault in share]
    assert not faults, "\n".join(faults)


def walk(pages: list[str], base: str, profile: Path) -> Iterator[str]:
    """The faults of these pages, in a browser of their own."""
    tab = Chromium(profile)
    try:
        for number, name in enumerate(pages):
            # Loading takes the time, so each page is loaded once: one half narrow and dark first, the other wide and
            # light. Pages of guards have one form; the others are looked at in all four ways.
            views = [(1280, 900, "light"), (390, 844, "dark")]
            views += [] if name.startswith("guards/") else [(1280, 900, "dark"), (390, 844, "light")]
            first, *others = views if number % 2 else [views[1], views[0], *views[2:]]
            tab.look(*first)
            tab.open(base + name)
            yield from (f"{name}: {fault}" for fault in page_faults(tab, base))
            for width, height, scheme in (first, *others):
                tab.look(width, height, scheme)
                yield from (f"{name} at {width} {scheme}: {fault}" for fault in view_faults(tab, scheme))
            yield from (f"{name}: {complaint}" for complaint in tab.complaints())
    finally:
        tab.close()


def page_faults(browser: Chromium, base: str) -> Iterator[str]:
    yield from (f"asks {url}" for url in browser.requests() if not url.startswith((base, "data:", "blob:")))
    found = browser.ask(IN_PAGE)
    if found["silent"] or found["mute"]:
        yield f"without text alternative: {found['silent']} and {found['mute']} drawings"
    if found["raw"]:
        yield "a trace without its player"


# The theme follows the reader's preference from a script, and its drawers slide when the window changes: both take a
# moment, so the page is asked again until it is right, for at most five seconds.
SETTLED = """new Promise((done) => {
  let n = 0;
  const light = () => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((c) => c > 127);
  const wide = () => document.documentElement.scrollWidth;
  const look = () => {
    const right = light() === %s && wide() <= innerWidth;
    if (right || ++n > 250) done([light(), wide(), innerWidth]);
    else setTimeout(look, 20);
  };
  look();
})"""


def view_faults(browser: Chromium, scheme: str) -> Iterator[str]:
    light, wide, window = browser.ask(SETTLED % str(scheme == "light").lower())
    if wide > window:
        yield f"is {wide} wide"
    if light != (scheme == "light"):
        yield "has the background of the other scheme"


def test_the_player_steps_by_keyboard(base: str, browser: Chromium) -> None:
    browser.look(1280, 900, "light")
    browser.open(base + "notebooks/04_ragged_decode.html")
    browser.ask("document.querySelector('.tkv-player').focus()")
    told = "document.querySelector('.tkv-player').innerText"
    assert "step 1 of 2" in browser.ask(told)
    browser.press("ArrowRight")
    assert "step 2 of 2" in browser.ask(told)
    browser.press("Home")
    assert "step 1 of 2" in browser.ask(told)


def test_search_works_without_a_network(base: str, browser: Chromium) -> None:
    browser.look(1280, 900, "light")
    browser.open(base + "index.html?q=dead+prefix")
    wait = """new Promise((done) => {
      let n = 0;
      const found = () => document.querySelector(".md-search-result__item");
      const look = () => (found() || ++n > 100 ? done(n) : setTimeout(look, 100));
      look();
    })"""
    assert browser.ask(wait) <= 100, "no result in ten seconds"


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := found.get(key))}
        if tag in ("a", "img", "script", "link") and (target := found.get("href") or found.get("src")):
            self.links.append(target)


def test_no_link_or_anchor_is_broken(site: Path) -> None:
    parsed: dict[Path, Links] = {}
    for path in site.rglob("*.html"):
        parsed[path] = Links()
        parsed[path].feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in parsed.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            place, anchor = urldefrag(link)
            target = (path.parent / unquote(place)).resolve() if place else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif anchor and target in parsed and unquote(anchor) not in parsed[target].ids:
                broken.append(f"{path.relative_to(site)}: no anchor {link}")
    assert broken == []
