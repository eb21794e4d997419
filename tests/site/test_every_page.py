"""The built site in a browser, at two widths, light and dark. It takes minutes.

`make site-check` opens every page; `make docs-check` of the pages of guards, which are made alike, every sixth.
Set TEACHKV_SITE to the folder of a built site to skip the build, TEACHKV_EVERY_PAGE to open every page.
"""

from __future__ import annotations

import contextlib
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

from tests.chromium import BINARY, Browser, Tab

pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BINARY is None, reason="no Chromium here")]

ROOT = Path(__file__).resolve().parent.parent.parent
TABS = 3
# In a ring: from one to the next either the window or the scheme changes, so one change of scheme is waited for.
VIEWS = [(1280, 900, "light"), (390, 844, "light"), (390, 844, "dark"), (1280, 900, "dark")]
IN_PAGE = """(() => {
  const silent = [...document.images].filter((i) => !i.alt && i.closest("article")).map((i) => i.src);
  const named = (s) => s.getAttribute("aria-label") || s.getAttribute("aria-labelledby") || s.querySelector("title");
  const mute = [...document.querySelectorAll("article svg[role=img]")].filter((s) => !named(s)).length;
  const raw = [...document.querySelectorAll("[data-tkv-trace]:not(.tkv-player)")].length;
  return { silent, mute, raw, players: document.querySelectorAll(".tkv-player").length };
})()"""


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open

    def log_message(self, format: str, *args: Any) -> None:
        pass


class WithoutIndex(Quiet):
    """Every page builds the index of the whole site in a worker. Hundreds of them would be most of the work."""

    def do_GET(self) -> None:
        if not self.path.endswith("/search_index.json"):
            super().do_GET()
            return
        text = b'{"config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}, "docs": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "TEACHKV_SITE" in os.environ:
        return Path(os.environ["TEACHKV_SITE"])
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@contextlib.contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    with served(site, Quiet) as address:
        yield address


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@pytest.fixture
def tab(browser: Browser) -> Tab:
    return browser.tab()


def names(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")


def chosen(found: list[str]) -> list[str]:
    """The pages to open: all, or all but five of six that tell of a guard."""
    if "TEACHKV_EVERY_PAGE" in os.environ:
        return found
    guards = [name for name in found if name.startswith("guards/") and name != "guards/index.html"]
    return sorted({*found} - {*guards} | {*guards[::6]})


def test_every_page_at_both_widths_in_both_schemes(site: Path, browser: Browser) -> None:
    """No error, no other host, no text alternative missing, nothing wider than the window, dark is dark."""
    assert len(names(site)) > 200, "the guards have a page each"
    found = chosen(names(site))
    tabs = [browser.tab() for _ in range(TABS)]
    with served(site, WithoutIndex) as base, ThreadPoolExecutor(TABS) as pool:
        walks = pool.map(lambda n: list(walk(found[n::TABS], base, tabs[n])), range(TABS))
        faults = [fault for share in walks for fault in share]
    assert not faults, "\n".join(faults)


def walk(pages: list[str], base: str, tab: Tab) -> Iterator[str]:
    """The faults of these pages. A page is loaded once, in the view in which the last one was left."""
    turn = 0
    for name in pages:
        tab.look(*VIEWS[turn])
        tab.open(base + name)
        yield from (f"{name}: {fault}" for fault in page_faults(tab, base))
        for view in VIEWS[turn:] + VIEWS[:turn]:
            tab.look(*view)
            yield from (f"{name} at {view[0]} {view[2]}: {fault}" for fault in view_faults(tab, view[2]))
        turn = (turn - 1) % len(VIEWS)
        yield from (f"{name}: {complaint}" for complaint in tab.complaints())


def page_faults(tab: Tab, base: str) -> Iterator[str]:
    yield from (f"asks {url}" for url in tab.requests() if not url.startswith((base, "data:", "blob:")))
    found = tab.ask(IN_PAGE)
    if found["silent"] or found["mute"]:
        yield f"without text alternative: {found['silent']} and {found['mute']} drawings"
    if found["raw"]:
        yield "a trace without its player"


SEEN = """[
  getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((c) => c > 127),
  document.documentElement.scrollWidth, innerWidth, document.visibilityState]"""


def view_faults(tab: Tab, scheme: str) -> Iterator[str]:
    light, wide, window, state = tab.ask(SEEN)
    if wide > window:
        yield f"is {wide} wide"
    if light != (scheme == "light"):
        yield "has the background of the other scheme"
    if state != "visible":
        yield "lies behind another tab: nothing of it was drawn"


PLAYED = {
    "notebooks/04_ragged_decode.html": "step",
    "notebooks/01_one_token_by_hand.html": "operation",
    "notebooks/08_thread_by_thread.html": "turn",
    "kernels/attention_decode_ragged.html": "turn",
}


@pytest.mark.parametrize(("page", "noun"), PLAYED.items(), ids=PLAYED)
def test_the_player_steps_by_keyboard(base: str, tab: Tab, page: str, noun: str) -> None:
    tab.look(1280, 900, "light")
    tab.open(base + page)
    tab.ask("document.querySelector('.tkv-player').focus()")
    head = "document.querySelector('.tkv-player .head').textContent"
    drawn = "document.querySelector('.tkv-player').innerHTML"
    assert tab.ask(head).startswith(f"{noun} 1 of ")
    first = tab.ask(drawn)
    tab.press("ArrowRight")
    assert tab.ask(head).startswith(f"{noun} 2 of ")
    assert tab.ask(drawn) != first
    tab.press("ArrowLeft")
    assert tab.ask(drawn) == first
    tab.press("End")
    at, of = re.findall(r"\d+", tab.ask(head))[:2]
    assert at == of
    tab.press("Home")
    assert tab.ask(drawn) == first


def test_search_works_without_a_network(base: str, tab: Tab) -> None:
    tab.look(1280, 900, "light")
    tab.open(base + "index.html?q=dead+prefix")
    wait = """new Promise((done) => {
      let n = 0;
      const found = () => document.querySelector(".md-search-result__item");
      const look = () => (found() || ++n > 100 ? done(n) : setTimeout(look, 100));
      look();
    })"""
    assert tab.ask(wait) <= 100, "no result in ten seconds"


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
