"""The red runs on the guards' pages say something: a bare "AssertionError" shows nobody what went wrong."""

from __future__ import annotations

import pytest

from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings
from tools import red_runs
from tools.markdown import origin, sentence_origin

SHORT = """
tests/kv/test_caches.py:88: in test_pad
    check(batch)
tests/kv/kvfake.py:63: in check
    assert column - pad == position
           ^^^^^^^^^^^^^^^^^^^^^^^^
E   AssertionError: 
E   Arrays are not equal
E   
E    ACTUAL: 0.123456789
=========================== short test summary info ============================
FAILED tests/kv/test_caches.py::test_pad
"""  # noqa: W291


def test_the_failing_line_and_what_is_said_of_it_are_kept() -> None:
    assert red_runs.red_lines(SHORT).splitlines() == [
        "assert column - pad == position",
        "Arrays are not equal",
        "ACTUAL: 0.1234",
    ]


@pytest.mark.parametrize("text", ["AssertionError", "AssertionError: ", "AssertionError: 1", "AssertionError: prefill"])
def test_a_bare_assertion_says_nothing(text: str) -> None:
    assert not red_runs.telling(text)


@pytest.mark.parametrize("text", ["AssertionError: assert 1 == 2", "GeometryError: 64 rows", "Failed: DID NOT RAISE X"])
def test_anything_more_says_something(text: str) -> None:
    assert red_runs.telling(text)


def test_every_captured_run_says_something() -> None:
    registry, runs = Registry.load(read_settings(red_runs.ROOT)), red_runs.read_runs()
    fresh = {name: run for name, run in runs.items() if name in registry.mutants and run["killer"]}
    assert [name for name, run in fresh.items() if not red_runs.telling(run["text"])] == []


def test_a_page_keeps_the_letters_of_a_repository() -> None:
    assert sentence_origin("vllm-project/vllm#1").startswith("[vllm-project/vllm#1](")
    assert sentence_origin("the seed document").startswith("[The seed document](")


def test_origins_are_links() -> None:
    assert origin("the parent engine, try_set_len") == (
        "[the parent engine](../glossary.md#parent-engine), try\\_set\\_len"
    )
    assert origin("the seed document (64 rows), ml-explore/mlx-examples#977") == (
        "[the seed document](../glossary.md#seed-document) (64 rows), "
        "[ml-explore/mlx-examples#977](https://github.com/ml-explore/mlx-examples/issues/977)"
    )
