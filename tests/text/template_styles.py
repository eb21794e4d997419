"""Chat templates in the styles that published models use, written anew, and conversations to put through them.

Each style exercises something of its own: whitespace control, namespaces, macros, loop controls, tools, documents,
refusals, dates, JSON.
"""
# ruff: noqa: E501, RUF001 (templates keep the lines and the characters that they have in the wild)

STYLES = {
    "plain_lines": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
    "chatml": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') "
        "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "chatml_default_system": """
{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}
        {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "indented_blocks": """{% for message in messages %}
    {% if message.role == 'user' %}
        <|user|>
{{ message.content }}
    {% elif message.role == 'system' %}
        <|system|>
{{ message.content }}
    {% else %}
        <|assistant|>
{{ message.content }}{{ eos_token }}
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}
""",
    "strict_alternation": """{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}
{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}""",
    "system_in_first_turn": """{% if messages[0]['role'] == 'system' %}
{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}{% set rest = messages %}{% set system = false %}{% endif %}
{% for message in rest %}
{% if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}
{% else %}{% set content = message['content'] %}{% endif %}
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}{{ ' ' + content | trim + ' ' + eos_token }}{% endif %}
{% endfor %}""",
    "headers_and_date": """{{- bos_token }}
{%- set date = strftime_now('%d %b %Y') %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + date + '\\n\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content | trim }}{%- set messages = messages[1:] %}{%- endif %}
{{- '<|eot_id|>' }}
{%- for message in messages %}
    {%- if 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception('One tool call at a time') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}{{- '}<|eot_id|>' }}
    {%- elif message.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (message.content | tojson) + '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + (message.content | trim) + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
""",
    "turns_with_model_role": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}""",
    "tools_in_system": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + (call.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
""",
    "thinking": """{%- set ns = namespace(last=messages | length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and message.content is string %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- set content = message.content or '' %}
        {%- set thought = '' %}
        {%- if content is string and '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and thought %}
            {{- '<|assistant|>\\n<think>\\n' + thought + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|assistant|>\\n' ~ content }}
        {%- endif %}
    {%- else %}
        {{- '<|' + message.role + '|>\\n' ~ message.content }}
    {%- endif %}
    {{- '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "content_parts": """{% for message in messages %}{{ '<|' ~ message.role ~ '|>' }}
{% if message.content is string %}{{ message.content }}
{% elif message.content is iterable and message.content is not mapping %}
{% for part in message.content %}
{% if part.type == 'text' %}{{ part.text }}{% elif part.type == 'image' %}{{ '<image>' }}{% endif %}
{% endfor %}
{% else %}{{ '(none)' }}
{% endif %}{{ '<|end|>\n' }}{% endfor %}""",
    "documents": """{% if documents %}
{{ '<results>' }}
{% for document in documents %}
Document: {{ loop.index0 }}
{% for key, value in document.items() %}
{{ key }}: {{ value }}
{% endfor %}

{% endfor %}
{{ '</results>' }}
{% endif %}
{% for message in messages %}
<|{{ message.role | upper }}|>{{ message.content }}<|END|>
{%- endfor %}
{% if add_generation_prompt %}<|CHATBOT|>{% endif %}""",
    "macro": """{% macro turn(role, text) -%}
<{{ role }}>{{ text }}</{{ role }}>
{% endmacro %}
{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %}""",
    "loop_controls": """{% for m in messages %}
{% if m.role == 'system' %}{% continue %}{% endif %}
{% if loop.index0 > 3 %}{% break %}{% endif %}
{{ m.role }}>{{ m.content }}
{% endfor %}""",
    "generation_tag": """{% for m in messages %}
{% if m.role == 'assistant' %}
<|a|>{% generation %}{{ m.content }}<|e|>
{% endgeneration %}
{% else %}
<|u|>{{ m.content }}<|e|>
{% endif %}
{% endfor %}""",
    "json_all": (
        "{{ messages | tojson }}\n{{ messages | tojson(indent=2) }}\n{{ tools | tojson(sort_keys=true) }}"
        "{{ messages | tojson(ensure_ascii=true, separators=(',', ':')) }}"
    ),
    "filters": """{% for m in messages | rejectattr('role', 'equalto', 'system') | list %}
{{ loop.index }}/{{ loop.length }} {{ m.role | capitalize }} {{ m.content | default('-', true) | string | replace('\n', ' ') | truncate(24) }}
{% endfor %}{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'eq', 'user') | list | length }}""",
    "dict_methods": """{% for m in messages %}{% for k, v in m | dictsort %}{{ k }}={{ v }};{% endfor %}
{{ m.get('name', 'nobody') }} {{ m.items() | list | length }}
{% endfor %}""",
    "string_tests": """{% for m in messages %}{% if m.content is none %}null{% elif m.content is mapping %}map{% elif m.content is string %}
{{ m.content.strip().startswith('H') }} {{ 'x' in m.content }} {{ m.content[:5] }} {{ m.content | length }}
{% else %}other{% endif %}{% endfor %}""",
    "vicuna": """{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set rest = messages[1:] %}
{%- else %}A chat between a person and an assistant.{% set rest = messages %}{% endif %}
{% for m in rest %}
{%- if m.role == 'user' %} USER: {{ m.content }}
{%- elif m.role == 'assistant' %} ASSISTANT: {{ m.content }}{{ eos_token }}
{%- endif %}
{% endfor %}
{%- if add_generation_prompt %} ASSISTANT:{% endif %}""",
    "instruction_blocks": """{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}

{% elif m.role == 'user' %}### Instruction:
{{ m.content | trim }}

{% elif m.role == 'assistant' %}### Response:
{{ m.content | trim }}

{% endif %}{% endfor %}{% if add_generation_prompt %}### Response:
{% endif %}""",
    "fullwidth_markers": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}"
        "{% elif m.role == 'assistant' and m.content is not none %}{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] "
        "+ '<｜end▁of▁sentence｜>' }}{% elif m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
    ),
    "comments_and_raw": """{# a note that must vanish #}
{% for m in messages %}
    {# another #}
{% raw %}{{ not a variable }}{% endraw %} {{ m.role }}
{%+ if true %}kept{% endif %}
{% endfor %}
""",
    "set_block_and_call": """{% set head %}[{{ messages | length }}]{% endset %}
{% macro wrap() %}({{ caller() }}){% endmacro %}
{{ head }}{% call wrap() %}{{ messages[-1].role }}{% endcall %}
{% for m in messages recursive %}{{ m.role[0] }}{% endfor %}
{{ range(3) | list }} {{ [1, 2] + [3] }} {{ 7 // 2 }} {{ 2 ** 3 }} {{ '%s-%s' % ('a', 1) }} {{ 'ab' * 2 }}""",
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a town, in °C & <b>bold</b>",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        },
    }
]
DOCUMENTS = [{"title": "Rivers", "text": "The Rhine is long."}, {"title": "Seas", "text": "Salt."}]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"town": "Zürich", "n": 1}}}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "one_user": {"messages": [turn("user", "Hello")]},
    "system_and_user": {"messages": [turn("system", " Be brief. \n"), turn("user", "  Hi \n there ")]},
    "many_turns": {
        "messages": [turn("user", "Hi"), turn("assistant", "Hey"), turn("user", "x < y & z"), turn("assistant", "ok")]
    },
    "system_only": {"messages": [turn("system", "Only a system.")]},
    "null_content_with_call": {
        "messages": [turn("user", "Weather?"), turn("assistant", None, tool_calls=[CALL]), turn("tool", "21 °C")],
        "tools": TOOLS,
    },
    "two_users": {
        "messages": [turn("user", "one"), turn("user", "two"), turn("assistant", "<think>\nhm\n</think>\n\nyes")]
    },
    "parts_and_names": {
        "messages": [
            turn("user", [{"type": "text", "text": "Look: "}, {"type": "image"}], name="ann"),
            turn("assistant", "日本 🙂 \"q\" 'a' \\n"),
        ]
    },
    "documents_and_thinking_off": {
        "messages": [turn("system", "s"), turn("user", "Q?"), turn("assistant", "A."), turn("user", "More")],
        "documents": DOCUMENTS,
        "variables": {"enable_thinking": False},
    },
}
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
