"""Rendered chats against texts frozen once and checked then against the reference (test_render_peers.py).

To freeze anew after adding a style: python tests/text/test_golden_chats.py
"""

import json
from datetime import datetime
from pathlib import Path

import pytest
from template_styles import CONVERSATIONS, NAMED, STYLES

from teachkv.errors import TemplateError
from teachkv.text import ChatTemplate

GOLDEN = Path(__file__).with_name("golden_chats.json")


def outcome(style, case):
    conversation = CONVERSATIONS[case]
    template = ChatTemplate(STYLES[style], clock=lambda: datetime(2024, 2, 29, 12, 0))
    try:
        return template.render(
            conversation["messages"],
            tools=conversation.get("tools"),
            documents=conversation.get("documents"),
            variables={**NAMED, **conversation.get("variables", {})},
            add_generation_prompt=True,
        )
    except TemplateError as problem:
        return {"refused": str(problem)}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.kills("template-whitespace/no-lstrip", "template-whitespace/no-trim", "template-refusal/own-words-lost")
@pytest.mark.case("smg-project/smg#685")
def test_rendered_as_frozen(style):
    frozen = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert {case: outcome(style, case) for case in CONVERSATIONS} == frozen[style]


if __name__ == "__main__":
    frozen = {style: {case: outcome(style, case) for case in CONVERSATIONS} for style in STYLES}
    GOLDEN.write_text(json.dumps(frozen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
