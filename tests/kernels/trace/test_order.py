"""How far apart neighbouring threads touch an array, and how much of what is fetched for them is used."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("numba.cuda", reason="the Numba telling needs numba and numba-cuda (extra 'simulator')")

import cuda_kernels.kv_strip
from cuda_kernels.trace import ArrayTrace, LaunchTrace, Touch, order_of, order_text, trace_kernel
from tools import kernel_picture
from tools.kernel_examples import examples

ROOT = Path(__file__).resolve().parents[3]


def launch(*touches: Touch, dtype: str = "float32") -> LaunchTrace:
    return LaunchTrace("k", (1, 1, 1), (64, 1, 1), (ArrayTrace("a", (64, 64), dtype),), touches)


def told(one: LaunchTrace) -> list[tuple[str, bool, int, int | None, int]]:
    return [(o.array, o.write, o.per_thread, o.apart, round(100 * o.used)) for o in order_of(one)]


def test_neighbours_in_a_block_that_read_neighbours_in_memory_use_all_that_is_fetched() -> None:
    assert told(launch(*(Touch(0, t, 0, False, t, 1) for t in range(64)))) == [("a", False, 1, 1, 100)]


def test_neighbours_that_read_down_a_column_use_one_number_of_eight() -> None:
    assert told(launch(*(Touch(0, t, 0, False, 64 * t, 1) for t in range(32)))) == [("a", False, 1, 64, 12)]


def test_the_nth_touch_of_a_thread_goes_with_the_nth_of_its_neighbour_and_blocks_stay_apart() -> None:
    touches = [Touch(b, t, 0, True, 1000 * b + 32 * n + t, 1) for b in range(2) for t in range(32) for n in range(3)]
    assert told(launch(*touches)) == [("a", True, 3, 1, 100)]


def test_wide_touches_count_all_their_numbers() -> None:
    assert told(launch(*(Touch(0, t, 0, False, 4 * t, 4) for t in range(8)))) == [("a", False, 1, 4, 100)]


def test_one_number_for_all_is_fetched_once() -> None:
    assert told(launch(*(Touch(0, t, 0, False, 3, 1) for t in range(32)))) == [("a", False, 1, 0, 12)]


def test_a_thread_alone_has_no_neighbour() -> None:
    assert told(launch(Touch(0, 5, 0, False, 0, 16), dtype="bfloat16")) == [("a", False, 1, None, 100)]


def changed_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """kv_strip as docs/first-hour.md has it changed."""
    page = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
    ((old, new, path),) = re.findall(r"sed -i\.bak 's\|(.+?)\|(.+?)\|' (\S+)", page)
    name = path.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    text = (ROOT / path).read_text(encoding="utf-8")
    exec(compile(text.replace(old, new), str(ROOT / path), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(cuda_kernels.kv_strip, "numba_kernel", module, raising=False)


def test_the_newcomers_change_is_seen_in_the_terminal_and_on_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, shown = [], []
    for number in range(2):
        out = tmp_path / f"{number}.html"
        monkeypatch.setattr(sys, "argv", ["kernel_picture", "kv_strip", "--out", str(out)])
        assert kernel_picture.main() == 0
        shown.append(capsys.readouterr().out.replace(str(out), "PAGE"))
        pages.append(out.read_text(encoding="utf-8"))
        changed_kernel(monkeypatch)
    assert "reads of cache: neighbouring threads 1 number apart; 100 % of what is fetched is used at once" in shown[0]
    assert "reads of cache: neighbouring threads 8 numbers apart; 50 % of what is fetched is used at once" in shown[1]
    for text, page in zip(shown, pages, strict=True):
        (line,) = (line.strip() for line in text.splitlines() if "reads of cache: " in line)
        assert line in page
    pictures = [re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0] for page in pages]
    assert pictures[0] != pictures[1], "all threads at once, before the player"


def test_the_first_hour_quotes_what_is_printed() -> None:
    trace = trace_kernel("kv_strip", examples()["kv_strip"][0](), "numba")
    page = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
    assert order_text(trace).splitlines()[0].strip() in page
