"""Pages that the site makes as it is built, so that they cannot fall behind: lessons, guards, exercises, kernels.

Named in mkdocs.yml under `hooks`. Runs before the notebook plugin, which then finds the lessons among the files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

from cuda_kernels.registry import OPS
from teachkv.mutate.settings import read_settings
from teachkv.observe.export import asset
from tools import case_pages, exercise_pages, guard_pages, kernel_figures, kernel_pages
from tools.red_runs import read_runs

ROOT = Path(__file__).resolve().parent.parent


def on_shutdown() -> None:
    """mkdocs takes its log handler off when Python is half gone already, and prints a traceback of that; so it need
    not."""
    for name in ("mkdocs.__main__", "__main__"):
        state = getattr(sys.modules.get(name), "State", None)
        if state is not None:
            state.__del__ = lambda self: None


@event_priority(100)
def on_files(files: Files, config: Any) -> Files:
    """Add what is generated; a page that already lies in docs is an error, not a silent choice."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File(f"notebooks/{path.name}", str(ROOT), config.site_dir, config.use_directory_urls))
    for name, text in generated():
        if files.get_file_from_path(name) is not None:
            raise SystemExit(f"site: docs/{name} is generated; delete the file")
        files.append(File.generated(config, name, content=text))
    return files


def generated() -> Iterator[tuple[str, str]]:
    """(path, text) of every page and asset that is not written by hand."""
    registry = guard_pages.load()
    yield from guard_pages.pages(registry, read_runs())
    yield from exercise_pages.pages(registry, read_settings(ROOT))
    records = kernel_figures.read_records(kernel_figures.EVIDENCE)
    yield "kernels/index.md", kernel_pages.index(OPS)
    for op in OPS:
        yield f"kernels/{op}.md", kernel_pages.page(op, records)
    yield "audit/cases.md", case_pages.page(case_pages.read_reports(), case_pages.find_marked())
    yield "contributing.md", contributing((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    yield "assets/player.js", asset("player.js")
    yield "assets/player.css", asset("player.css")


def contributing(text: str) -> str:
    """CONTRIBUTING.md as a page; its links start at the root of the repository."""
    return re.sub(r"\]\(docs/", "](", text)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A lesson as the site shows it: with the site's own player instead of the saved one.

    The notebook template brings a loader of diagrams from another host; no lesson has any.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    html = re.sub(r'<(script|style) class="tkv-code">.*?</\1>', "", html, flags=re.DOTALL)
    return re.sub(r'<script type="module">(?:(?!</script>).)*mermaid.*?</script>', "", html, flags=re.DOTALL)
