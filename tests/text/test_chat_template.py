"""Templates: sandbox (F01), clock (F04), whitespace (F05), places (F07), refusals (F09), limits, continuation."""

import copy
import json
import time
from datetime import datetime

import pytest

from teachkv.errors import TemplateError, TokenizerError
from teachkv.text import ChatTemplate, load_chat_template
from teachkv.text import template_limits as limits
from teachkv.text.sources import Folder

USER = [{"role": "user", "content": "Hello"}]


def render(source, messages=USER, **more):
    return ChatTemplate(source).render(messages, **more)


@pytest.mark.parametrize(
    "escape",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ [].__class__.__base__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ raise_exception.__code__ }}",
        "{{ strftime_now.__self__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self._TemplateReference__context.environment }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ messages | attr('__class__') }}",
        "{{ (messages | map(attribute='__class__') | list)[0].__name__ }}",
        "{{ messages.append({'role': 'system', 'content': 'x'}) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages[0].pop('role') }}",
        "{{ messages.clear() }}",
        "{{ messages.sort() }}",
    ],
)
@pytest.mark.case("guidance-ai/guidance#1475")
def test_escapes_and_changes_are_refused_or_empty(escape):
    messages = copy.deepcopy(USER)
    try:
        text = render(escape, messages)
    except TemplateError:
        text = ""
    assert text == ""
    assert messages == USER


def test_a_template_that_sets_its_own_copy_leaves_the_callers_messages():
    messages = copy.deepcopy(USER)
    assert render("{% set messages = messages + [{'role': 'a'}] %}{{ messages | length }}", messages) == "2"
    assert messages == USER


@pytest.mark.case("EricLBuehler/mistral.rs#1132")
def test_the_clock_is_an_argument():
    template = ChatTemplate("{{ strftime_now('%d %B %Y') }}", clock=lambda: datetime(2024, 7, 26))
    assert template.render(USER) == "26 July 2024"
    assert ChatTemplate("{{ strftime_now('%Y') }}").render(USER) == str(datetime.now().year)


@pytest.mark.kills("template-whitespace/no-lstrip", "template-whitespace/no-trim")
@pytest.mark.case("smg-project/smg#685")
def test_indented_blocks_on_their_own_line_leave_nothing():
    assert (
        render("{% for m in messages %}\n    {% if m %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend")
        == "Hello\nend"
    )


@pytest.mark.kills("template-refusal/own-words-lost")
@pytest.mark.case("EricLBuehler/mistral.rs#506")
def test_a_refusal_carries_the_templates_own_words():
    with pytest.raises(TemplateError, match="roles must alternate, ann"):
        render("{{ raise_exception('roles must alternate, ' + messages[0].name) }}", [{"role": "user", "name": "ann"}])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for %}", "Expected"),
        ("{{ nothing.at.all }}", "undefined"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 'a' + 1 }}", "TypeError"),
        ("{% include 'x' %}", "loader"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)
def test_whatever_goes_wrong_inside_is_a_template_error_in_one_line(source, words):
    with pytest.raises(TemplateError, match=words) as caught:
        render(source)
    assert "\n" not in str(caught.value)


@pytest.mark.kills("template-limits/no-ticks")
@pytest.mark.case("guidance-ai/guidance#1475")
def test_loops_without_output_run_out_of_time(monkeypatch):
    monkeypatch.setattr(limits.Budget.__init__, "__defaults__", (0.05, limits.MAX_CHARS))
    # Long enough to pass the limit many times over, and short enough to end at all when nothing stops it.
    nested = "{% set r = range(99999) %}{% set s = r[:200] %}{% for a in r %}{% for b in s %}{% endfor %}{% endfor %}"
    recursion = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(20) }}"
    for source in (nested, recursion):
        begun = time.process_time()
        with pytest.raises(TemplateError, match=r"more than 0\.05 s"):
            render(source)
        assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10 ** 9 }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ 10 ** (10 ** 8) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ 'x' | center(999999999) }}",
        "{{ 'x'.ljust(999999999) }}",
        "{{ 'x'.zfill(999999999) }}",
        "{{ ('a\n' * 9999) | indent(999999) }}",
        "{{ (1).to_bytes(999999999, 'big') }}",
        "{{ [1] | tojson(indent=99999999) }}",
        "{{ range(99999) | list | tojson(separators=('x' * 99999, 'y')) }}",
        "{{ [1] | slice(999999999) | list }}",
        "{{ [1] | batch(999999999, 0) | list }}",
        "{{ 1.5 | round(999999999, 'ceil') }}",
        "{{ ('{0}' * 99999).format('x' * 9999) }}",
        "{{ ('%s' * 99) % (['x' * 9999] * 99) }}",
        "{{ ('http://a.b ' * 9999) | urlize(target='x' * 99999) }}",
        "{{ ('a' * 99999).replace('a', 'b' * 9999) }}",
        "{{ ('a' * 99999) | replace('a', 'b' * 9999) }}",
        "{{ range(99999) | join('x' * 9999) }}",
        "{{ ('x' * 9999).join(['a'] * 99999) }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(9) %}{% set ns.x = [ns.x] * 999 %}{% endfor %}{{ ns.x }}",
        "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{{ range(10 ** 9) | list }}",
    ],
)
@pytest.mark.case("guidance-ai/guidance#1475")
def test_what_grows_without_bound_is_refused_before_it_grows(source):
    begun = time.process_time()
    with pytest.raises(TemplateError):
        render(source)
    assert time.process_time() - begun < 6


@pytest.mark.kills("template-items/removed")
@pytest.mark.parametrize("filter", ["list", "unique | list", "sort", "map('upper') | list", "urlize", "wordwrap(1)"])
def test_a_filter_that_works_item_by_item_takes_no_more_than_it_can_do_in_time(filter):
    """Found by trying: urlize took 27 s and half a gigabyte for eight megabytes of text."""
    with pytest.raises(TemplateError, match="are too many"):
        render("{{ ('a ' * 200000) | " + filter + " }}")
    assert render("{{ ('a ' * 9999) | " + filter + " }}")


def test_a_filter_takes_exactly_as_many_items_as_its_limit_says():
    limits.check_call("sort", range(limits.MAX_ITEMS), [])
    with pytest.raises(limits.LimitReached, match=f"{limits.MAX_ITEMS + 1} characters or parts are too many"):
        limits.check_call("sort", range(limits.MAX_ITEMS + 1), [])


def test_ordinary_long_chats_stay_within_the_limits():
    messages = [{"role": "user", "content": "word " * 20_000}] * 20
    text = render(
        "{% for m in messages %}<{{ m.role ~ m.content | trim }}>{% endfor %}{{ 1234567890 | string }}", messages
    )
    assert len(text) == 20 * (4 + 99_999 + 2) + 10


@pytest.mark.kills("template-place/config-first", "template-place/no-file")
@pytest.mark.case("huggingface/transformers#33246")
def test_places_and_their_priority(tmp_path):
    def put(name, value):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    def now():
        return load_chat_template(Folder(tmp_path)).render(USER)

    assert load_chat_template(Folder(tmp_path)) is None
    put("processor_config.json", {"chat_template": "processor"})
    assert now() == "processor"
    put("chat_template.json", {"chat_template": "json file"})
    assert now() == "json file"
    put("tokenizer_config.json", {"chat_template": None})
    assert now() == "json file"
    put("tokenizer_config.json", {"chat_template": "config"})
    assert now() == "config"
    put("tokenizer_config.json", {"chat_template": [{"name": "default", "template": "listed"}]})
    assert now() == "listed"
    put("chat_template.jinja", "file")
    assert now() == "file"
    put("additional_chat_templates/tool_use.jinja", "for tools")
    template = load_chat_template(Folder(tmp_path))
    assert (template.render(USER), template.render(USER, tools=[{}])) == ("file", "for tools")
    assert "chat_template.jinja" in template.where


@pytest.mark.case("huggingface/transformers#33246")
def test_named_templates_and_a_list_without_default(tmp_path):
    entries = [{"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": entries}))
    template = load_chat_template(Folder(tmp_path))
    assert template.render(USER, tools=[{}]) == "T"
    assert template.render(USER, name="rag") == "R"
    with pytest.raises(TemplateError, match="no template named 'default'; choose one by name: rag, tool_use"):
        template.render(USER)
    with pytest.raises(TemplateError, match="no template named 'x'; known: rag, tool_use"):
        template.render(USER, name="x")


@pytest.mark.parametrize("value", [7, [1], [{"name": "a"}], [{"name": "a", "template": 3}], {"default": 1}])
def test_a_template_of_a_wrong_kind_is_named(tmp_path, value):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: .*chat_template"):
        load_chat_template(Folder(tmp_path))


def test_names_that_would_break_the_line_are_spelt_out():
    """Found by fuzzing: a template's name is foreign text too."""
    named = {f"a{place}\n": "x" for place in range(9)} | {"b" * 4000: "x"}
    with pytest.raises(TemplateError, match="no template named 'default'") as caught:
        ChatTemplate(named).render(USER)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("'a7\\n' and 2 more")
    with pytest.raises(TemplateError, match="no template named 'q'") as caught:
        ChatTemplate({"b" * 4000: "x"}).render(USER, name="q")
    assert len(str(caught.value)) < 120


def test_a_templates_own_words_are_cut_and_cannot_steer_a_terminal():
    """Found by fuzzing: an unknown test's name is as long as whoever wrote it likes."""
    for source in ("{{ 1 is " + "x" * 5000 + " }}", "{{ raise_exception('a' * 5000) }}"):
        with pytest.raises(TemplateError) as caught:
            render(source)
        assert len(str(caught.value)) < 450
    with pytest.raises(TemplateError, match="x1b"):
        render("{{ raise_exception('\x1b[2J') }}")


def test_a_template_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfeabc")
    with pytest.raises(TokenizerError, match=r"chat_template\.jinja: byte 0 is not UTF-8"):
        load_chat_template(Folder(tmp_path))


def test_a_broken_template_hurts_only_chats(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    template = load_chat_template(Folder(tmp_path))
    with pytest.raises(TemplateError):
        template.render(USER)


CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</end>\n{% endfor %}"
TRIMMED = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</end>\n{% endfor %}"


@pytest.mark.kills("continue-open/keeps-space")
def test_the_final_message_can_be_left_open():
    chat = [*USER, {"role": "assistant", "content": "Sure, \n"}]
    assert render(CHATML, chat, continue_final_message=True) == "<user>Hello</end>\n<assistant>Sure, \n"
    assert render(TRIMMED, chat, continue_final_message=True) == "<user>Hello</end>\n<assistant>Sure,"
    parts = [*USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert render("{{ messages[1].content[1].text }}!content", parts, continue_final_message=True) == "b"
    thought = [*USER, {"role": "assistant", "thought": "hm", "content": ""}]
    assert render("{{ messages[1].thought }}...", thought, continue_final_message="thought") == "hm"


def test_what_cannot_be_continued_is_said():
    for source, messages, words in (
        (CHATML, [{"role": "assistant", "content": None}], "no 'content' to continue"),
        ("{{ messages[0].role }}", USER, "does not use 'content'"),
        ("{{ messages[0].content[:2] }}", USER, "changes or drops"),
        (CHATML, [{"role": "user", "content": [{"type": "image"}]}], "no text to continue"),
    ):
        with pytest.raises(TemplateError, match=words):
            render(source, messages, continue_final_message=True)
    with pytest.raises(TemplateError, match="exclude each other"):
        render(CHATML, continue_final_message=True, add_generation_prompt=True)


def test_an_empty_conversation_is_refused():
    with pytest.raises(TemplateError, match="conversation is empty"):
        render(CHATML, [])
