"""The trace is spelled out when it is read, and says what each step did whenever that is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.observe import StepRecord

PROMPTS = [[7, 8, 9, 10], [11, 12], [13] * 9, [14] * 5]
PARAMS = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in (3, 9, 5, 7)]


def told(read_each_step: bool, **options: Any) -> list[StepRecord]:
    """All records without their times; read at the end, or also after every chunk of text."""
    with LLM("tiny", trace=True, max_num_seqs=3, **options) as llm:
        for _ in llm.stream(PROMPTS, PARAMS):
            if read_each_step:
                assert llm.trace.records
        records = llm.trace.records
        assert records == llm.trace.take()
        assert llm.trace.records == []
    return [replace(record, seconds=0.0, forward_seconds=0.0, waited_seconds=0.0) for record in records]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("batch_cache", ["incremental", "rebuild"])
def test_a_step_reads_the_same_at_once_and_at_the_end(batch_cache: str, overlap: bool) -> None:
    early, late = (told(each, batch_cache=batch_cache, overlap=overlap) for each in (True, False))
    assert early == late
    assert any(len(record.rows) == 3 for record in late)
    assert {token.finish for record in late for token in record.tokens} == {None, "length"}
    assert all(record.plan["step"] == record.step for record in late)
