"""Codex's response items as typed blocks, and what a person said in them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import orjson

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import (
    coerce_bool,
    coerce_dict,
    coerce_list,
    coerce_text,
    drop_base64,
    extract_tag_body,
    parse_blocks,
    parse_tool_call,
    stringify,
    strip_tags,
)

Json = dict[str, object]

NOISE_TAGS = (
    *("environment_context", "user_instructions", "INSTRUCTIONS", "user_shell_command", "turn_aborted", "image"),
    *("permissions instructions", "collaboration_mode", "skill", "skills_instructions", "apps_instructions"),
    *("plugins_instructions", "personality_spec", "model_switch", "user_action", "subagent_notification"),
    *("environments_instructions", "realtime_conversation", "system-reminder", "recommended_plugins"),
)
AGENTS_MD = "# AGENTS.md instructions"
IDE_CONTEXT = ("# Context from my IDE setup:", "# Files mentioned by the user:")
IDE_REQUEST = "## My request for Codex:"

CALLS = frozenset(
    {
        *("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"),
        *("image_generation_call", "mcp_call", "tool_call", "computer_call"),
    }
)
OUTPUTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output", "tool_result"}
)
_INNER = ("content", "output", "text")
"""Where an output without a type has its text or its parts."""


def extract_codex_user_text(text: str) -> str:
    """Return what the person typed: injected context, instructions and shell output taken out of its text."""
    tagged = "<INSTRUCTIONS>" in text
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(IDE_CONTEXT) and IDE_REQUEST in text:
        text = text.partition(IDE_REQUEST)[2].strip()
    if text.startswith(AGENTS_MD):
        # Of a tagged preamble the heading is left; without the tag all of it is the file.
        text = text.partition("\n")[2].strip() if tagged else ""
    return text


def parse_agent_answer(text: str) -> tuple[str, str | None] | None:
    """Return a sub-agent's answer and id, where the text is the tool's notification of it."""
    body = extract_tag_body(text, "subagent_notification")
    if body is None:
        return None
    notification = _parse_json(body)
    if not isinstance(notification, dict):
        return body, None
    status = notification.get("status")
    words = status.get("completed") or status.get("errored") if isinstance(status, dict) else status
    return stringify(words), coerce_text(notification.get("agent_id"))


def _parse_json(text: str) -> object:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return text


def extract_reasoning(item: Json) -> list[str]:
    """Return the readable parts of a reasoning item: its summary, or where it is open, its content."""
    for key in ("summary", "content"):
        texts = [stringify(part.get("text")) for part in coerce_list(item.get(key)) if isinstance(part, dict)]
        if any(texts):
            return [text for text in texts if text]
    return []


def parse_codex_call(item: Json) -> Block:
    """Return a tool call, of whatever kind."""
    call = parse_tool_call(item)
    return replace(call, text=call.text or "", name=call.name or str(item.get("type")).removesuffix("_call"))


def parse_codex_output(item: Json) -> list[Block]:
    """Return a tool's output as one block, then its images. Older versions wrap it as JSON with the exit code."""
    given = next((item[key] for key in ("output", "result", "tools") if item.get(key) is not None), "")
    if isinstance(given, str) and given.startswith('{"output"'):
        given = _parse_json(given)
    parts = list(_parse_output_parts(given))
    text = "\n".join(block.text for block in parts if block.text)
    name, call_id = coerce_text(item.get("name")), coerce_text(item.get("call_id"))
    images = [Block("image", media=block.media, call_id=call_id) for block in parts if block.type == "image"]
    return [Block("tool_result", text, name, call_id, is_error=_detect_failure(given)), *images]


def _parse_output_parts(given: object) -> Iterator[Block]:
    if isinstance(given, list):
        for part in given:
            yield from _parse_output_parts(part)
    elif isinstance(given, dict) and isinstance(given.get("type"), str):
        yield from parse_blocks([given]) or ()
    elif inner := [given[key] for key in _INNER if isinstance(given, dict) and isinstance(given.get(key), str | list)]:
        yield from _parse_output_parts(inner[0])
    else:
        streams = [stringify(value) for key in ("stdout", "stderr") if (value := coerce_dict(given).get(key))]
        yield Block("text", drop_base64("\n".join(streams) or stringify(given)))


def _detect_failure(given: object) -> bool | None:
    """Return whether the output says that the call failed; None where it says nothing."""
    fields = coerce_dict(given)
    success = coerce_bool(fields.get("success"))
    if success is not None:
        return not success
    codes = (fields.get("exitCode"), fields.get("exit_code"), coerce_dict(fields.get("metadata")).get("exit_code"))
    code = next((code for code in codes if isinstance(code, int)), None)
    return None if code is None else code != 0
