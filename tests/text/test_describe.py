"""`teachkv inspect` on odd models: what stands in for what, what is passed over, whose word ends an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from teachkv.cli import main
from tests.toys import NULL, write_tiny


def settings(folder: Path, name: str, **changes: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["inspect", str(folder)]) == 0
    return capsys.readouterr().out.splitlines()


def row(lines: list[str], label: str) -> list[str]:
    return [line[12:] for line in lines if line.startswith(f"{label} ")]


def test_a_plain_model_has_its_rows_and_no_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspected(write_tiny(tmp_path), capsys)
    assert row(lines, "tokenizer") == ["97 tokens, 2 of them control tokens"]
    assert row(lines, "plain text") == ["stands alone"]
    assert row(lines, "ends") == ["1 '<eos>' (config)"]
    assert row(lines, "template") == ["tokenizer_config.json: default"]
    assert row(lines, "note") == []


@pytest.mark.case("vllm-project/vllm#4182")
def test_every_end_is_shown_with_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_tiny(tmp_path, eos_token_id=2, generation={"eos_token_id": [2, 7], "temperature": 0.6, "top_p": 0.9})
    lines = inspected(folder, capsys)
    assert row(lines, "ends") == ["2 ' ' (config), 7 '%' (config), 1 '<eos>' (tokenizer)"]
    advice = "generation_config.json suggests temperature 0.6, top_p 0.9: not used, each request says how it draws"
    assert row(lines, "note") == [advice]


ODD: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "padded vocabulary": ({"vocab_size": 120}, {}, {}, "23 rows of the embedding have no token: drawn, they"),
    "small embedding": ({"vocab_size": 50}, {}, {}, "the tokenizer has 47 tokens more than the embedding has rows"),
    "unknown pad": ({}, {"pad_token": "<pad>"}, {}, "pad_token '<pad>' of tokenizer_config.json is not in the vocab"),
    "bos asked": ({}, {"add_bos_token": True}, {}, "add_bos_token is true in tokenizer_config.json, but"),
    "short": ({}, {"model_max_length": 64}, {}, "model_max_length 64 of tokenizer_config.json is not used"),
    "padding": ({}, {}, {"padding": {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "<bos>"}}, "padding in tokenizer.json is not used"),
    "date": ({}, {"chat_template": "{{ strftime_now('%Y') }}"}, {}, "the chat template asks for the date"),
    "unread": ({"sharpness": 3}, {}, {}, "keys not read: sharpness"),
    "rope": ({"rope_theta": None}, {}, {}, "rope_theta is absent: 10000"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_stands_in_or_is_passed_over_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    config, tokenizer_config, tokenizer, note = ODD[name]
    folder = write_tiny(tmp_path, **config)
    settings(folder, "tokenizer_config.json", **tokenizer_config)
    settings(folder, "tokenizer.json", **tokenizer)
    (found,) = row(inspected(folder, capsys), "note")
    assert found.startswith(note)


def test_an_explicit_null_is_no_unread_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspected(write_tiny(tmp_path, head_dim=NULL, tie_word_embeddings=False), capsys)
    assert row(lines, "note") == []


@pytest.mark.case("huggingface/transformers#33246")
def test_the_template_in_use_and_those_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_tiny(tmp_path)
    (folder / "chat_template.jinja").write_text("x")
    (folder / "processor_config.json").write_text('{"chat_template": "y"}')
    lines = inspected(folder, capsys)
    assert row(lines, "template") == ["chat_template.jinja: default"]
    assert row(lines, "note") == [
        "chat templates in tokenizer_config.json are not used: chat_template.jinja comes first",
        "chat templates in processor_config.json are not used: chat_template.jinja comes first",
    ]
    (folder / "processor_config.json").write_text("{")  # of no account as long as it is not used
    assert row(inspected(folder, capsys), "note")[1].startswith("chat templates in processor_config.json are not used")
    (folder / "chat_template.jinja").unlink()
    (folder / "processor_config.json").unlink()
    settings(folder, "tokenizer_config.json", chat_template=None)
    assert row(inspected(folder, capsys), "template") == ["none: a chat is refused, plain prompts work"]


def test_a_missing_tokenizer_is_shown_and_a_damaged_one_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_tiny(tmp_path)
    (folder / "tokenizer.json").write_text("{")
    assert main(["inspect", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "tokenizer.json" in err
    (folder / "tokenizer.json").unlink()
    (found,) = row(inspected(folder, capsys), "tokenizer")
    assert found == f"none: {folder}: tokenizer.json is missing; the model cannot be run without it"
