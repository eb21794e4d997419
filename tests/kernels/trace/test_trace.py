"""What a trace says must be what the kernel did, in both tellings, as data, as text and as a picture."""

from __future__ import annotations

import json
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "numba"))

pytest.importorskip("numba.cuda", reason="the Numba telling needs numba and numba-cuda (extra 'simulator')")

from cases import attention, case, copied

from cuda_kernels.registry import OPS, get
from cuda_kernels.trace import ArrayTrace, KernelTrace, LaunchTrace, LiveRun, Touch, as_svg, as_text, trace_kernel
from cuda_kernels.trace.picture import merged
from cuda_kernels.trace.text import grouped, ranges

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++", "c++")), reason="the host build needs a C++ compiler"
)
TELLINGS = ["numba", pytest.param("raw", marks=needs_compiler)]


def decode(pads: tuple[int, ...] = (3, 67)) -> Any:
    return attention(np.random.default_rng(1), (5, 7), (1, 1), pads=pads, group=1, dim=8)


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("op", ["attention_decode_ragged", "attention_prefill"])
def test_attention_reads_each_live_column_and_no_other(op: str, telling: str) -> None:
    trace = trace_kernel(op, decode(), telling)
    for name in ("k_cache", "v_cache"):
        seen = {(row, at) for launch in trace.launches for _, row, at in launch.along(name, 2)}
        live = {(run.row, at) for run in trace.live for at in range(run.first, run.stop)}
        assert seen == live
    assert trace.dead_reads("k_cache", "v_cache") == []
    assert {(run.first, run.stop) for run in trace.live} == {(3, 8), (67, 74)}


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("op", OPS)
def test_every_op_can_be_traced(op: str, telling: str) -> None:
    """The elements written are those that changed or came out; the caller's arrays stay as they were."""
    arguments = case(op, np.random.default_rng(2))
    before = copied(arguments)
    trace = trace_kernel(op, arguments, telling)
    for a, b in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, b)
    out = get(op, "spec")(*before)
    if out is not None:
        last = trace.launches[-1]
        number = last.number_of("tokens" if op == "sample" else "out")
        written = {
            at for t in last.touches if t.write and t.array == number for at in range(t.offset, t.offset + t.length)
        }
        assert written == set(range(out.size))


@pytest.mark.parametrize("telling", TELLINGS)
def test_a_copy_reads_a_run_and_writes_it(telling: str) -> None:
    cache = np.zeros((2, 1, 9, 4), np.float32)
    (launch,) = trace_kernel("kv_strip", {"cache": cache, "row": 1, "start": 2, "stop": 5}, telling).launches
    reads = {(row, at) for touch, row, at in launch.along("cache", 2) if not touch.write}
    assert reads == {(1, 2), (1, 3), (1, 4)}


def test_a_trace_survives_json() -> None:
    trace = trace_kernel("attention_decode_ragged", decode())
    assert KernelTrace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


def broken() -> KernelTrace:
    """A kernel that reads column 1 of row 0, whose first live column is 2; and writes column 3."""
    cache = ArrayTrace("k_cache", (1, 1, 4, 2), "float32")
    touches = (Touch(0, 0, 0, False, 2, 2), Touch(0, 1, 0, False, 4, 4), Touch(0, 2, 0, True, 6, 1))
    launch = LaunchTrace("bad", (1, 1, 1), (4, 1, 1), (cache,), touches)
    return KernelTrace("attention_prefill", "numba", (launch,), (LiveRun(0, 2, 4),))


def test_a_read_of_the_dead_prefix_is_named() -> None:
    assert broken().dead_reads("k_cache") == [("k_cache", 0, 1)]
    text = as_text(broken())
    assert "row 0: columns 0..1 are dead" in text
    assert "dead columns read: k_cache row 0 column 1" in text
    assert "dead columns read: none" in as_text(trace_kernel("attention_prefill", decode()))


def test_a_vector_access_counts_every_column_it_covers() -> None:
    (launch,) = broken().launches
    assert [(t.thread, at) for t, _, at in launch.along("k_cache", 2)] == [(0, 1), (1, 2), (1, 3), (2, 3)]


def test_the_text_is_short_and_groups_threads() -> None:
    text = as_text(trace_kernel("attention_decode_ragged", decode()))
    assert "threads 0..4 -> 3..7" in text
    assert "threads 0..7 -> 3..7" in text
    assert len(text.splitlines()) < 50


def test_the_picture_is_well_formed_and_has_words() -> None:
    trace = broken()
    root = ET.fromstring(as_svg(trace, "k_cache"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    title, words = root.find(f"{space}title"), root.find(f"{space}desc")
    assert title is not None
    assert words is not None
    assert words.text == as_text(trace)
    assert root.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
    fills = [r.get("fill") for r in root.iter(f"{space}rect")]
    assert fills.count("#3b82f6") == 3  # two reads and the legend
    assert fills.count("#e07b00") == 2
    grey = next(r for r in root.iter(f"{space}rect") if r.get("fill") == "#8a8a8a")
    assert float(grey.get("width") or 0) == 640 * 2 / 4


def test_no_colour_of_the_picture_depends_on_the_page() -> None:
    svg = as_svg(broken(), "k_cache")
    assert "#000" not in svg
    assert "#fff" not in svg
    assert 'fill="currentColor"' in svg


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no block touches 'sink'; the arrays are k_cache"):
        as_svg(broken(), "sink")
    with pytest.raises(ValueError, match="only 'numba' and 'raw' have threads"):
        trace_kernel("embed", (), "spec")


def test_ranges_and_groups() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1..3, 7, 9..10"
    assert grouped({0: {4}, 1: {5}}) == [([0, 1], [4, 5])]
    assert grouped({0: {1, 2}, 1: {1, 2}, 2: {3}}) == [([0, 1], [1, 2]), ([2], [3])]
    assert merged(frozenset({(0, 1, False), (0, 2, False), (0, 2, True)})) == [(0, 1, 2, False), (0, 2, 2, True)]
