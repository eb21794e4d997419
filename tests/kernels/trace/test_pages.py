"""The pages of docs/kernels come from the folders, the traces and the records, and say nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="the Numba telling needs numba and numba-cuda (extra 'simulator')")

from cuda_kernels.registry import OPS
from tools import kernel_figures, kernel_pages

TIME = {"time": {"lines": [{"name": "Qwen2.5-0.5B attention_decode B=1", "us": 7.5, "GB/s": 20, "TFLOP/s": 0.0}]}}
CHECK = {"telling": "numba", "check": {"worst": {"attention_decode_ragged float16": 2.6e-4, "linear float16": 1e-4}}}


def records(folder: Path, *contents: dict[str, Any]) -> list[dict[str, Any]]:
    for i, content in enumerate(contents):
        (folder / f"r{i}.json").write_text(json.dumps(content))
    return kernel_figures.read_records(folder)


def test_a_page_has_three_tellings_a_picture_and_the_figures(tmp_path: Path) -> None:
    text = kernel_pages.page("attention_decode_ragged", records(tmp_path, TIME, CHECK))
    for title in ("Meaning (NumPy)", "Numba", "CUDA C++"):
        assert f'=== "{title}"' in text
    assert "def merge_segments(" in text
    assert 'note "common/attention_spec.py"' in text
    assert "<svg" in text
    assert "dead, not to be read" in text
    assert "| raw | Qwen2.5-0.5B attention_decode B=1 | 7.5 | 20 | 0.0 |  | r0.json |" in text
    assert "| numba | float16 | 2.6e-04 | r1.json |" in text
    assert "1.0e-04" not in text


def test_guards_stay_and_mutants_go() -> None:
    source = "# guard[x]: why it is there\n# mutant[x/y]:\n#   - a = 1\n#   + a = 2\na = 1\n# - a list item\n"
    assert kernel_pages.fenced(source, "a.py")[1:-1] == ["# guard[x]: why it is there", "a = 1", "# - a list item"]


def test_no_figures_without_a_record() -> None:
    text = kernel_pages.page("kv_strip", [])
    assert "## Measured" not in text
    assert "## Against float64" not in text


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("SmolLM2-135M linear up [4864, 896] rows 1", "linear"),
        ("Qwen2.5-0.5B attention_prefill 32 x 275", "attention_prefill"),
        ("Qwen2.5-0.5B lm_head rows 32", "lm_head"),
        ("one launch", None),
    ],
)
def test_lines_find_their_op(line: str, op: str | None) -> None:
    assert kernel_figures.op_of(line) == op


def test_every_op_has_an_example_and_a_place_in_the_index() -> None:
    assert set(kernel_pages.examples()) == set(OPS)
    index = kernel_pages.index(OPS)
    assert all(f"]({op}.md): " in index for op in OPS)
