"""mini-swe-agent for tests, in an environment of its own (``make mini``): its packages are none of this project's."""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".venv-mini"

COMMAND = r"""
printf '{"run": {"task": %s}}' "$(cat {prompt_json})" > /tmp/task.yaml
mini --yolo --exit-immediately --model openai/{model} --output {trajectory} -c mini.yaml -c /tmp/task.yaml
"""
"""As in ``docs/agents.md``."""
ENV = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


def missing() -> str | None:
    """Why it cannot run here; ``None`` when it can."""
    if (HOME / "bin" / "mini").exists():
        return None
    return f"mini-swe-agent is not installed in {HOME.name} (make mini)"
