"""Chat templates in the manners that publishers have, and for each a twin that says itself what the model writes."""

from __future__ import annotations

PLAIN = """{%- if tools %}{{ '<|im_start|>system\\n# Tools' }}
    {%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}GENERATION
        {%- if message.reasoning_content %}
            {{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}ENDGENERATION
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""
"""Texts as they are, arguments as JSON, results of one reply in one turn of the user."""

TRIMMED = """{{- bos_token }}
{%- for message in messages %}
    {%- set role = 'ipython' if message.role == 'tool' else message.role %}
    {{- '<|start|>' + role + '<|end|>\\n\\n' }}
    {%- if message.role == 'assistant' %}GENERATION
        {{- message.content | trim }}
        {%- for call in message.tool_calls or [] %}
            {{- '[' + call.function.name + '(' }}
            {%- for name, value in call.function.arguments.items() %}
                {{- name + '=' + (value if value is string else value | tojson) + ('' if loop.last else ', ') }}
            {%- endfor %}{{ ')]' }}
        {%- endfor %}
        {{- '<|eot|>' }}ENDGENERATION
    {%- elif message.role == 'tool' %}{{ message.content | tojson }}{{ '<|eot|>' }}
    {%- else %}{{ message.content | trim }}{{ '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}"""
"""Texts trimmed, results escaped, arguments joined by hand, reasoning left out."""

JOINED = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}{{ '<A>' }}GENERATION{{ message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '<call>' + call.function.name + '<sep>' + call.function.arguments + '</call>' }}
        {%- endfor %}{{ eos_token }}ENDGENERATION
    {%- elif message.role == 'tool' %}{{ '<O ' + message.name + '>' + message.content + '</O>' }}
    {%- else %}{{ '<U>' + message.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<A>' }}{%- endif %}"""
"""Arguments are joined as text, the name of a tool stands again over its result, and the turn ends with a token."""

ALTERNATING = """{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate user/assistant') }}
    {%- endif %}{{ message.role + ': ' + message.content + '\\n' }}
{%- endfor %}"""

AMID = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}{{ '<A>' }}
        {%- for call in message.tool_calls or [] %}{{ '<call>' + call.function.name + '</call>' }}{%- endfor %}
        {%- if not loop.last and messages[loop.index0 + 1].role == 'tool' %}
            {{- '<O>' + messages[loop.index0 + 1].content + '</O>' }}
        {%- endif %}{{ message.content + '<end>' }}
    {%- elif message.role != 'tool' %}{{ '<U>' + message.content }}{%- endif %}
{%- endfor %}"""
"""Shows a result in the midst of the reply that asked for it."""

CHOOSY = "{%- for m in messages %}{{ '*' if m.content.startswith('Y') else '' }}{{ m.content }}{%- endfor %}"
"""Decides by how a text begins."""


def plain(template: str) -> str:
    """The template as most publishers have it."""
    return template.replace("ENDGENERATION", "").replace("GENERATION", "")


def marked(template: str) -> str:
    """Its twin."""
    end = template.replace("ENDGENERATION", "{%- endgeneration %}")
    return end.replace("GENERATION", "{%- generation %}")
