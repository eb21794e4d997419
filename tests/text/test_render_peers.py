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
@pytest.mark.case("smg-project/smg#685")
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


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize(
    "style", ["chatml", "strict_alternation", "turns_with_model_role", "tools_in_system", "documents"]
)
def test_ids_equal_the_reference_where_nobody_spells_control_tokens(style, case):
    from toy_text import byte_level, ours
    from transformers import PreTrainedTokenizerFast

    inner = byte_level(specials=["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"])
    theirs = PreTrainedTokenizerFast(tokenizer_object=inner, **NAMED, chat_template=STYLES[style])
    conversation = CONVERSATIONS[case]
    more = {"tools": conversation.get("tools"), "documents": conversation.get("documents")}
    try:
        wanted = theirs.apply_chat_template(
            conversation["messages"], add_generation_prompt=True, return_dict=False, **more
        )
    except Exception:
        with pytest.raises(TemplateError):
            ours(inner, ChatTemplate(STYLES[style]), **NAMED).chat_ids(conversation["messages"], **more)
        return
    assert ours(inner, ChatTemplate(STYLES[style]), **NAMED).chat_ids(conversation["messages"], **more) == wanted
