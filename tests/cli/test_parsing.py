"""Options come from the dataclasses that define them, so none can be missing or mean something else."""

import dataclasses
import math
from typing import Any

import pytest

from teachkv.commands import build_parser
from teachkv.commands.parsing import field_helps, picked
from teachkv.options import EngineOptions
from teachkv.sample import SamplingParams

CLI_ONLY_IN_PYTHON = {"logit_bias"}


@pytest.mark.parametrize("record", [EngineOptions, SamplingParams])
def test_every_field_is_an_option_with_a_help_text(record: type) -> None:
    helps = field_helps(record)
    args = build_parser().parse_args(["generate", "x"])
    assert picked(args, record) == {}
    for field in dataclasses.fields(record):
        if field.name not in CLI_ONLY_IN_PYTHON:
            assert helps.get(field.name), f"{record.__name__}.{field.name} has no line in the docstring"


@pytest.mark.parametrize(
    ("args", "record", "expected"),
    [
        (["--max-num-seqs", "3"], EngineOptions, {"max_num_seqs": 3}),
        (["--no-coalesce"], EngineOptions, {"coalesce": False}),
        (["--invariance", "off"], EngineOptions, {"invariance": False}),
        (["--invariance", "required"], EngineOptions, {"invariance": "required"}),
        (["--policy", "ragged"], EngineOptions, {"policy": "ragged"}),
        (["--stop", "a", "--stop", "b"], SamplingParams, {"stop": ["a", "b"]}),
        (["--stop-token-ids", "4", "--stop-token-ids", "5"], SamplingParams, {"stop_token_ids": [4, 5]}),
        (["--logit-bias", "3=1.5", "--logit-bias", "4=-inf"], SamplingParams, {"logit_bias": {3: 1.5, 4: -math.inf}}),
        (["--temperature", "0.5"], SamplingParams, {"temperature": 0.5}),
        (["--seed", "9"], SamplingParams, {"seed": 9}),
        (["--max-tokens", "7"], SamplingParams, {"max_tokens": 7}),
    ],
)
def test_what_is_given_arrives_typed(args: list[str], record: type, expected: dict[str, Any]) -> None:
    assert picked(build_parser().parse_args(["generate", "x", *args]), record) == expected
    record(**expected)


def test_the_engines_seed_and_a_requests_seed_are_two_options() -> None:
    args = build_parser().parse_args(["generate", "x", "--engine-seed", "1", "--seed", "2"])
    assert picked(args, EngineOptions) == {"seed": 1}
    assert picked(args, SamplingParams) == {"seed": 2}
