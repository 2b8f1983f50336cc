"""Codex's response items as typed blocks, and what a person said in them."""

from collections.abc import Iterator

import orjson

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_text,
    drop_base64,
    dump_json,
    extract_tag_body,
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


def parse_codex_content(content: object) -> list[Block]:
    """Return blocks of a message's content: a string, or a list of `input_text`, `output_text`, `input_image`, …"""
    if isinstance(content, str):
        return [Block("text", drop_base64(content))]
    return [_parse_part(part) for part in content] if isinstance(content, list) else []


def join_codex_text(blocks: list[Block]) -> str:
    """Return the text blocks' text, nothing else."""
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return clean_text("\n".join(texts)) if texts else ""


def extract_codex_user_text(text: str) -> str:
    """Return what the person typed: injected context, instructions and shell output taken out of `join_codex_text`
    text.
    """
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
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body, None
    if not isinstance(told, dict):
        return body, None
    status = told.get("status")
    words = status.get("completed") or status.get("errored") if isinstance(status, dict) else status
    return stringify(words), coerce_text(told.get("agent_id"))


def parse_codex_call(item: Json) -> Block:
    """Return a tool call, whichever of the many shapes it has."""
    kind = str(item.get("type"))
    function = item.get("function")
    name = item.get("name") or (function.get("name") if isinstance(function, dict) else None)
    given = next((item[key] for key in ("arguments", "input", "action", "revised_prompt") if item.get(key)), None)
    return Block(
        "tool_call",
        drop_base64(stringify(given)),
        name=coerce_text(name) or kind.removesuffix("_call"),
        call_id=coerce_text(item.get("call_id")) or coerce_text(item.get("id")),
    )


def parse_codex_output(item: Json) -> list[Block]:
    """Return a tool's output as one block, then its images. Older versions wrap it as JSON with the exit code."""
    given = next((item[key] for key in ("output", "result", "tools") if item.get(key) is not None), "")
    if isinstance(given, str) and given.startswith('{"output"'):
        given = _unwrap_json(given)
    parts = list(_parse_output_parts(given))
    text = "\n".join(block.text for block in parts if block.text)
    call = coerce_text(item.get("call_id"))
    images = [Block("image", media=block.media, call_id=call) for block in parts if block.type == "image"]
    return [
        Block("tool_result", text, name=coerce_text(item.get("name")), call_id=call, is_error=_detect_failure(given)),
        *images,
    ]


def extract_reasoning(item: Json) -> list[str]:
    """Return the readable parts of a reasoning item: its summary, or where it is open, its content."""
    for key in ("summary", "content"):
        parts = item.get(key)
        texts = (
            [stringify(part.get("text")) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        if any(texts):
            return [text for text in texts if text]
    return []


def stringify(value: object) -> str:
    """Return text as it is, nothing as "", anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else dump_json(value)


def _parse_part(part: object) -> Block:
    if isinstance(part, str):
        return Block("text", drop_base64(part))
    if not isinstance(part, dict):
        return Block("other", stringify(part))
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text" | "inputText" | "refusal":
            return Block("text", drop_base64(stringify(part.get("text") or part.get("refusal"))))
        case "input_image" | "image" | "output_image":
            return Block("image", media=_parse_media_type(part.get("image_url")))
        case "encrypted_content":
            return Block("other", name="encrypted_content")
        case kind:
            return Block("other", drop_base64(stringify(part)), name=coerce_text(kind))


def _parse_output_parts(given: object) -> Iterator[Block]:
    if isinstance(given, list):
        for part in given:
            yield from _parse_output_parts(part)
    elif isinstance(given, dict) and isinstance(given.get("type"), str):
        yield _parse_part(given)
    elif isinstance(given, dict):
        for key in ("content", "output", "text"):
            if isinstance(given.get(key), str | list):
                yield from _parse_output_parts(given[key])
                return
        streams = [stringify(given[key]) for key in ("stdout", "stderr") if given.get(key)]
        yield Block("text", drop_base64("\n".join(streams) or stringify(given)))
    else:
        yield Block("text", drop_base64(stringify(given)))


def _unwrap_json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _detect_failure(given: object) -> bool | None:
    """Return whether the output says that the call failed; None where it says nothing."""
    if not isinstance(given, dict):
        return None
    if isinstance(given.get("success"), bool):
        return not given["success"]
    metadata = given.get("metadata")
    codes = [given.get("exitCode"), given.get("exit_code")]
    codes += [metadata.get("exit_code")] if isinstance(metadata, dict) else []
    code = next((code for code in codes if isinstance(code, int)), None)
    return None if code is None else code != 0


def _parse_media_type(url: object) -> str | None:
    """Return the media type of a data URI; the bytes are left behind."""
    if isinstance(url, str) and url.startswith("data:"):
        return url[5:60].partition(";")[0] or None
    return None
