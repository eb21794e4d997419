"""Rendered chats byte-equal to the reference renderer in `transformers`."""

from datetime import datetime

import pytest
from template_styles import CONVERSATIONS, NAMED, STYLES

from teachkv.errors import TemplateError
from teachkv.text import ChatTemplate

pytestmark = pytest.mark.peers
reference = pytest.importorskip("transformers.utils.chat_template_utils", reason="transformers is not installed")


def by_reference(style, case, **options):
    values = {**NAMED, **case.get("variables", {})}
    texts, _ = reference.render_jinja_template(
        conversations=[case["messages"]],
        chat_template=STYLES[style],
        tools=case.get("tools"),
        documents=case.get("documents"),
        **options,
        **values,
    )
    return texts[0]


def by_us(style, case, **options):
    return ChatTemplate(STYLES[style], clock=datetime.now).render(
        case["messages"],
        tools=case.get("tools"),
        documents=case.get("documents"),
        variables={**NAMED, **case.get("variables", {})},
        **options,
    )


@pytest.mark.parametrize("options", [{}, {"add_generation_prompt": True}, {"continue_final_message": True}])
@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("style", STYLES)
def test_render_equals_the_reference(style, case, options):
    try:
        wanted = by_reference(style, CONVERSATIONS[case], **options)
    except Exception as problem:
        with pytest.raises(TemplateError) as ours:
            by_us(style, CONVERSATIONS[case], **options)
        words = "" if "continue_final_message" in options else str(problem).splitlines()[0]
        assert words in str(ours.value)
        return
    assert by_us(style, CONVERSATIONS[case], **options) == wanted


def test_most_pairs_render_at_all():
    """The comparison would be empty if both sides refused everything."""
    rendered = 0
    for style in STYLES:
        for case in CONVERSATIONS.values():
            try:
                rendered += bool(by_reference(style, case))
            except Exception:
                continue
    assert len(STYLES) >= 20
    assert len(CONVERSATIONS) == 8
    assert rendered >= 130
