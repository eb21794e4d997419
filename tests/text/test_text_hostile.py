"""Damaged files and random templates end in a typed error of one line, or work; nothing else."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_text import byte_level, sentencepiece

from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.errors import TeachKVError, TemplateError, TokenizerError
from teachkv.text import ChatTemplate, Tokenizer, load_tokenizer

FILES = [byte_level(bos="<|endoftext|>").to_str(), sentencepiece(bos="<s>").to_str()]
ATOMS = st.none() | st.booleans() | st.integers(-5, 10**9) | st.text(max_size=4) | st.just([]) | st.just({})


def paths(value, path=()):
    """All places in a JSON value, the many entries of a vocabulary thinned out."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, (key, part) in enumerate(inner):
        if place < 12:
            found += paths(part, (*path, key))
    return found


def changed(value, path, new):
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = changed(value[path[0]], path[1:], new)
    return copied


def use(raw, config):
    try:
        tokenizer = Tokenizer(raw, config)
        ids = tokenizer.encode("a <s>b</s>é<|im_end|>", parse_special=False)
        assert all(0 <= token < tokenizer.vocab_size for token in ids)
        tokenizer.decode(ids)
        tokenizer.encode("a<s>", parse_special=True)
    except TeachKVError as problem:
        assert "\n" not in str(problem)  # noqa: PT017 (both outcomes are right)


@settings(max_examples=150)
@given(data=st.data())
def test_one_changed_value_anywhere_in_the_file(data):
    value = json.loads(data.draw(st.sampled_from(FILES)))
    path = data.draw(st.sampled_from(paths(value)))
    use(json.dumps(changed(value, path, data.draw(ATOMS))), {})


@settings(max_examples=60)
@given(data=st.data())
def test_one_changed_byte_or_a_cut(data):
    raw = data.draw(st.sampled_from(FILES)).encode()
    place = data.draw(st.integers(0, len(raw) - 1))
    use(raw[:place] + bytes([data.draw(st.integers(0, 255))]) + raw[place + 1 :], {})
    use(raw[:place], {})


@pytest.mark.kills("tokenizer-tried/removed")
def test_a_post_processor_that_panics_is_an_error_of_loading():
    value = json.loads(FILES[0])
    value["post_processor"]["special_tokens"] = {}
    with pytest.raises(TokenizerError, match="fails on a text"):
        Tokenizer(json.dumps(value), {})
    value = json.loads(FILES[0])
    value["post_processor"]["special_tokens"]["<|endoftext|>"]["ids"] = [800_264]
    with pytest.raises(TokenizerError, match="adds token 800264 to every text"):
        Tokenizer(json.dumps(value), {})


@pytest.mark.kills("json-is-text/removed")
@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.json"])
def test_half_a_character_in_a_json_file_is_an_error_that_names_it(name):
    """Found by fuzzing: the tokenizers package raised UnicodeEncodeError on the name of a token."""
    files = {"tokenizer.json": FILES[0], name: '{"eos_token": {"content": "a\\uD800"}}'}
    with pytest.raises(TokenizerError, match=rf"memory: {name}: spells half a character"):
        load_tokenizer(MemoryFiles("memory", files))
    whole = {"tokenizer.json": FILES[0], name: '{"eos_token": "\\ud83d\\ude42", "note": "\\\\ud800"}'}
    assert load_tokenizer(MemoryFiles("memory", whole)).eos_ids == ()


@given(config=st.dictionaries(st.sampled_from(["bos_token", "eos_token", "pad_token", "chat_template"]), ATOMS))
def test_any_tokenizer_config(config):
    use(FILES[0], config)


PARTS = [
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if m %}",
    "{% endif %}",
    "{{ m.content }}",
    "{{ messages[0]['role'] }}",
    "{% set x = messages %}",
    "{{ x | tojson }}",
    "{% generation %}",
    "{% endgeneration %}",
    "{{ raise_exception('no') }}",
    "{% macro f(a) %}",
    "{% endmacro %}",
    "{{ f(1) }}",
    "{{ nope.nope }}",
    "{% break %}",
    "{{ x ~ x }}",
    "{{ 'a' * 9 }}",
    "{{ strftime_now('%Y') }}",
    "{#",
    "#}",
    "{{",
    "}}",
    "{%",
    "%}",
    "text\n",
    "{% raw %}",
    "{% endraw %}",
    "{{ x[9] }}",
    "{{ '%s' | format(x) }}",
    "{{ x.append(1) }}",
    "{{ loop.index }}",
    "{% call f() %}",
    "{% endcall %}",
]


@settings(max_examples=300)
@given(source=st.lists(st.sampled_from(PARTS), max_size=12).map("".join) | st.text(alphabet="{}%#m -'\n", max_size=20))
def test_any_template_renders_or_is_refused_in_one_line(source):
    try:
        text = ChatTemplate(source).render([{"role": "user", "content": "hi"}])
    except TemplateError as problem:
        assert "\n" not in str(problem)  # noqa: PT017 (both outcomes are right)
    else:
        assert isinstance(text, str)


@pytest.mark.parametrize(
    "message", [None, 3, "text", [], {"role": 3}, {"content": {"a": [1]}}, {"role": "user", "content": 5}]
)
def test_messages_of_any_shape_are_refused_or_rendered(message):
    template = ChatTemplate("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}")
    with pytest.raises(TemplateError):
        template.render([message])
