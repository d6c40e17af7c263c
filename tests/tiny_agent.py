"""A small agent for tests of command successors: it runs in the jail, with nothing but the standard library.

``tiny_agent.py PROMPT TRAJECTORY BASE_URL [MOOD …]``. It asks its model until that calls ``submit``, carries out calls
of ``bash``, and writes its trajectory as mini-swe-agent does. A mood makes it worse than it has to be.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def main(prompt: str, place: str, base_url: str, *moods: str) -> int:
    task = pathlib.Path(prompt).read_text()
    talk: list[dict[str, Any]] = [{"role": "system", "content": "Work."}, {"role": "user", "content": task}]
    kept: list[dict[str, Any]] = list(talk)
    status = "Submitted"
    while True:
        body = {"model": "any", "messages": talk, "tools": TOOLS, "stream": "stream" in moods}
        if "other" in moods:
            body["messages"] = [{"role": "system", "content": f"It is {time.time()}."}, *talk]
        try:
            answer = ask(base_url, body)
        except urllib.error.HTTPError as error:
            print("refused", error.code, error.read().decode())
            status = "PermissionDeniedError"
            break
        reply = answer["choices"][0]["message"]
        said = {"role": "assistant", "content": reply["content"], "tool_calls": reply.get("tool_calls")}
        talk.append(said)
        kept.append({**said, "extra": {"response": {"usage": answer.get("usage"), "model": answer["model"]}}})
        is_over = not reply.get("tool_calls")
        for call in reply.get("tool_calls") or ():
            text = carry_out(call["function"], moods)
            is_over |= text is None
            result = {"role": "tool", "tool_call_id": call["id"], "content": "bye" if text is None else text}
            talk.append(result)
            kept.append(result)
        if is_over:
            break
    write(place, kept, status, moods)
    return 3 if "failing" in moods or status != "Submitted" else 0


def ask(base_url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        data = response.read().decode()
    if not body["stream"]:
        value: dict[str, Any] = json.loads(data)
        return value
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")]
    assert data.rstrip().endswith("data: [DONE]")
    return {"choices": [{"message": events[0]["choices"][0]["delta"]}], "model": events[0]["model"]}


def carry_out(function: dict[str, Any], moods: tuple[str, ...]) -> str | None:
    if function["name"] == "submit":
        return None
    command = json.loads(function["arguments"])["command"]
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    text = done.stdout + done.stderr
    return f"{time.time()} {text}" if "clock" in moods else text


def write(place: str, kept: list[dict[str, Any]], status: str, moods: tuple[str, ...]) -> None:
    if "silent" in moods:
        return
    value = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": status, "submission": ""},
        "messages": kept,
    }
    pathlib.Path(place).write_text(json.dumps(value))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
