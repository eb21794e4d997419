"""Errors cross process borders whole, and a call that is refused leaves nothing of itself behind."""

import pickle
from typing import Any

import pytest

from teachkv import LLM, SamplingParams, errors
from teachkv.errors import OptionError, PlanRefused, RowAtMaximum, TeachKVError
from tests.toys import refuses, write_tiny

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_another_process_as_it_was(kind: type[Exception]) -> None:
    refused = issubclass(kind, PlanRefused)
    error = kind("no room", layer=3, row=1, lengths=[7, 9]) if refused else kind("no room")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert (str(back), vars(back)) == (str(error), vars(error))


def test_a_refused_plan_says_layer_row_and_lengths_also_when_it_comes_back() -> None:
    back = pickle.loads(pickle.dumps(RowAtMaximum("full", layer=0, row=2, lengths=(1, 2, 3))))
    assert (back.layer, back.row, back.lengths) == (0, 2, (1, 2, 3))
    assert isinstance(back, TeachKVError)


FOREIGN: list[dict[str, Any]] = [
    {"stop_token_ids": [259]},
    {"stop_token_ids": [3, 2**40]},
    {"logit_bias": {259: 1.0}},
    {"logit_bias": dict.fromkeys(range(259), -float("inf"))},
]


@pytest.mark.kills("door-foreign-ids/removed")
@pytest.mark.parametrize("values", FOREIGN, ids=["stop", "far stop", "bias", "nothing left"])
def test_ids_that_the_vocabulary_lacks_are_refused_at_the_door(values: dict[str, Any]) -> None:
    """Before anything runs, and before the first piece is asked for."""
    with LLM("tiny", seed=1) as llm:
        good, bad = SamplingParams(max_tokens=3), SamplingParams(max_tokens=3, **values)
        for params in (bad, [good, bad]):
            with refuses(OptionError, r"stop_token_ids|logit_bias"):
                llm.stream([[1, 2], [3, 4]], params)
        assert llm._alive().engine.roster.sequences == {}
        assert llm.stats()["steps"]["count"] == 0
        assert len(llm.generate([[1, 2]], SamplingParams(max_tokens=2, stop_token_ids=[258]))) == 1


@pytest.mark.kills("queued-is-watched/all-or-none")
def test_what_fails_while_requests_are_queued_leaves_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with LLM("tiny", seed=1) as llm:
        serving, began = llm._alive(), []
        start = serving.start

        def second_fails(request: Any) -> Any:
            began.append(request)
            if len(began) == 2:
                raise MemoryError
            return start(request)

        monkeypatch.setattr(serving, "start", second_fails)
        with pytest.raises(MemoryError):
            llm.generate([[1, 2], [3, 4]])
        assert serving.engine.roster.sequences == {}
        assert serving.engine.scheduler.counts() == (0, 0, 0)


def test_an_end_that_can_never_be_drawn_is_told_when_the_model_is_loaded(tmp_path: Any) -> None:
    said: list[str] = []
    LLM(str(write_tiny(tmp_path / "m", "llama", eos_token_id=[1, 97])), log=said.append).close()
    assert "note: eos id 97 lies outside the vocabulary of 97 and can never be drawn" in said


@pytest.mark.kills("strip-honoured/ignored")
def test_eager_stripping_needs_the_cache_that_can_strip() -> None:
    for options in ({}, {"policy": "ragged"}, {"policy": "bucketed", "batch_cache": "incremental"}):
        with refuses(OptionError, "strip 'eager' belongs to batch_cache 'rebuild'"):
            LLM("tiny", strip="eager", **options)
    LLM("tiny", strip="eager", policy="bucketed").close()
    LLM("tiny", strip="eager", batch_cache="rebuild").close()
