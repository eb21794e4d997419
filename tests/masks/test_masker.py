"""Both entry points, every way out of them, with ragged rows: the dead prefix must come through all of them."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

import teachkv.masks
from teachkv.errors import GeometryError
from teachkv.kv.view import Geometry
from teachkv.masks import CausalByKernel, Masker, NoMask

Case = tuple[list[int], list[int] | None, list[int], int | None]  # ends, lead pads, query counts, window

RAGGED: dict[str, Case] = {
    "one query, no window": ([8, 8, 8], [0, 3, 6], [1, 1, 1], None),
    "one query, window bites": ([8, 8, 8], [0, 3, 6], [1, 1, 1], 4),
    "one query, window wider than the context": ([8, 8, 8], [0, 3, 6], [1, 1, 1], 8),
    "several queries, no window": ([8, 7, 8], [0, 3, 5], [3, 2, 3], None),
    "several queries, window bites": ([8, 7, 8], [0, 3, 5], [3, 2, 3], 2),
    "several queries, window wider than the context": ([8, 7, 8], [0, 3, 5], [3, 2, 3], 100),
    "a ring that has dropped positions": ([5, 5], [-4, -4], [1, 1], 4),
    "one row alone": ([8], [3], [1], None),
}


def geometry(ends: list[int], pads: list[int] | None, counts: list[int]) -> tuple[Geometry, np.ndarray]:
    column = np.concatenate([np.arange(end - n, end) for end, n in zip(ends, counts, strict=True)])
    lead_pad = None if pads is None else np.array(pads, dtype=np.int32)
    row = np.arange(len(ends), dtype=np.int32)
    shape = Geometry(row, lead_pad, np.array(ends, dtype=np.int32), column.astype(np.int32))
    return shape, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def entry_points(module: ModuleType) -> dict[str, ast.FunctionDef]:
    """Public methods of the masker that answer with a Mask: found, not listed."""
    tree = ast.parse(module.__source__ if hasattr(module, "__source__") else inspect.getsource(module))
    masker = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Masker")
    methods = [node for node in masker.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {m.name: m for m in methods if isinstance(m.returns, ast.Name) and m.returns.id == "Mask"}


def ask(module: ModuleType, entry: str, case: Case) -> tuple[Any, Geometry, set[tuple[str, int]]]:
    """The entry's answer, and the (function, line) of every return that ran inside the module."""
    ends, pads, counts, window = case
    shape, cu_seqlens = geometry(ends, pads, counts)
    function: Callable[..., Any] = getattr(module.Masker, entry)
    arguments = (
        (shape, cu_seqlens, window) if "window" in inspect.signature(function).parameters else (shape, cu_seqlens)
    )
    left: set[tuple[str, int]] = set()

    def watch(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != function.__code__.co_filename:
            return None
        if event == "return":
            left.add((frame.f_code.co_name, frame.f_lineno))
        return watch

    previous = sys.gettrace()
    sys.settrace(watch)
    try:
        answer = function(*arguments)
    finally:
        sys.settrace(previous)
    return answer, shape, left


def table(module: ModuleType) -> dict[tuple[str, int], set[str]]:
    """(entry point, line of a return) -> the ragged fixtures that leave by it, called through that entry point."""
    rows: dict[tuple[str, int], set[str]] = {}
    for entry, node in entry_points(module).items():
        returns = [child for child in ast.walk(node) if isinstance(child, ast.Return)]
        rows |= {(entry, child.lineno): set() for child in returns}
        for name, case in RAGGED.items():
            _, _, left = ask(module, entry, case)
            for child in returns:
                last = child.end_lineno or child.lineno
                if any(function == entry and child.lineno <= line <= last for function, line in left):
                    rows[entry, child.lineno].add(name)
    return rows


def test_every_return_of_every_entry_point_has_a_ragged_fixture() -> None:
    rows = table(teachkv.masks)
    assert {entry for entry, _ in rows} >= {"causal", "sliding_window_causal"}
    assert [place for place, fixtures in rows.items() if not fixtures] == []


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ("        if window is None:\n", "        if window == 77:\n            return NoMask()\n"),
        (
            "    @staticmethod\n    def as_bias",
            "    @staticmethod\n    def chunked(geometry: Geometry, cu_seqlens: IntArray) -> Mask:\n"
            "        if len(cu_seqlens) == 77:\n            return NoMask()\n"
            "        return CausalByKernel(geometry.lead_pad, None)\n\n",
        ),
    ],
    ids=["new early return", "new entry point"],
)
def test_the_table_notices_what_no_fixture_reaches(before: str, added: str) -> None:
    source = Path(teachkv.masks.__file__).read_text()
    assert source.count(before) == 1
    module = ModuleType("masks_with_one_more")
    module.__source__ = source.replace(before, added + before)  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        exec(compile(module.__source__, "masks_with_one_more.py", "exec"), module.__dict__)
        assert len([place for place, fixtures in table(module).items() if not fixtures]) == 1
    finally:
        del sys.modules[module.__name__]


def carried(entry: str, name: str) -> None:
    answer, shape, _ = ask(teachkv.masks, entry, RAGGED[name])
    assert isinstance(answer, CausalByKernel)
    assert answer.lead_pad is shape.lead_pad


@pytest.mark.kills("masker/none-at-one-query")
def test_one_query_token_still_carries_the_dead_prefix() -> None:
    carried("causal", "one query, no window")
    carried("sliding_window_causal", "one query, window wider than the context")


@pytest.mark.kills("masker-causal/drops-lead-pad")
def test_causal_carries_the_dead_prefix_for_several_queries() -> None:
    carried("causal", "several queries, no window")


@pytest.mark.kills("masker-window/drops-lead-pad")
def test_window_carries_the_dead_prefix() -> None:
    carried("sliding_window_causal", "one query, window bites")


@pytest.mark.parametrize("name", RAGGED)
@pytest.mark.parametrize("entry", ["causal", "sliding_window_causal"])
def test_every_ragged_fixture_gets_its_pad_back(entry: str, name: str) -> None:
    carried(entry, name)


@pytest.mark.parametrize("window", [None, 8, 9])
def test_uniform_rows_get_no_mask_at_one_query_token(window: int | None) -> None:
    shape, cu_seqlens = geometry([8, 8], None, [1, 1])
    assert isinstance(Masker.sliding_window_causal(shape, cu_seqlens, window), NoMask)
    assert isinstance(Masker.causal(shape, cu_seqlens), NoMask)


@pytest.mark.case("huggingface/transformers#39408")
@pytest.mark.kills("window/one-too-wide")
def test_window_one_short_of_the_context_bites() -> None:
    shape, cu_seqlens = geometry([8, 8], None, [1, 1])
    answer = Masker.sliding_window_causal(shape, cu_seqlens, 7)
    assert isinstance(answer, CausalByKernel)
    assert (answer.lead_pad, answer.window) == (None, 7)


@pytest.mark.kills("dead-row/removed")
def test_a_row_without_live_column_is_an_error_never_no_mask() -> None:
    for entry, window in ((Masker.causal, ()), (Masker.sliding_window_causal, (4,))):
        shape, cu_seqlens = geometry([8, 8], [0, 8], [1, 1])
        with pytest.raises(GeometryError, match="row 1 has 0 live columns"):
            entry(shape, cu_seqlens, *window)


def test_padding_rows_are_not_occupied() -> None:
    shape, cu_seqlens = geometry([8, 8], [3, 8], [1, 1])
    padded = Geometry(np.array([0, -1], dtype=np.int32), shape.lead_pad, shape.end, shape.column)
    assert isinstance(Masker.causal(padded, cu_seqlens), CausalByKernel)


def test_rows_and_counts_must_agree() -> None:
    shape, cu_seqlens = geometry([8, 8], [0, 3], [1, 1])
    with pytest.raises(GeometryError, match="2 rows with 1 counts"):
        Masker.causal(shape, cu_seqlens[:2])


@pytest.mark.kills("as-bias/one-too-wide")
def test_the_explicit_twin_shows_exactly_the_same_columns() -> None:
    for ends, pads, counts, window in RAGGED.values():
        shape, cu_seqlens = geometry(ends, pads, counts)
        mask = Masker.sliding_window_causal(shape, cu_seqlens, window)
        assert isinstance(mask, NoMask | CausalByKernel)
        bias = Masker.as_bias(mask, shape, cu_seqlens).array
        assert bias.shape == (len(ends), 1, max(counts), max(ends))
        for b, (end, pad, n) in enumerate(zip(ends, pads or [0] * len(ends), counts, strict=True)):
            for i in range(max(counts)):
                own = end - n + i
                low = max(pad, 0, own + 1 - window if window else 0)
                expected = set(range(low, own + 1)) if i < n else set()
                assert set(np.flatnonzero(bias[b, 0, i] == 0)) == expected
