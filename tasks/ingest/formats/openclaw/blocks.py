"""The content of OpenClaw's and pi's messages as typed blocks."""

from typing import Any

import orjson

from slowwave.tasks.ingest.parsing.clean import drop_base64
from slowwave.tasks.ingest.parsing.records import Block


def content_blocks(content: object) -> list[Block]:
    """Typed blocks of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return [Block("text", drop_base64(content))] if content else []
    parts = content if isinstance(content, list) else []
    return [_block(part) for part in parts if part is not None]


def _block(part: object) -> Block:
    if isinstance(part, str):
        return Block("text", drop_base64(part))
    if not isinstance(part, dict):
        return Block("other", as_json(part))
    match part.get("type"):
        case "text":
            return Block("text", drop_base64(text_or_none(part.get("text")) or ""))
        case "thinking":
            return Block("thinking", text_or_none(part.get("thinking")) or "")
        case "toolCall" | "tool_call" | "tool_use" | "functionCall":
            arguments = part.get("arguments", part.get("input"))
            given = arguments if isinstance(arguments, str) else as_json(arguments)
            return Block(
                "tool_call",
                drop_base64(given),
                name=text_or_none(part.get("name")),
                call_id=text_or_none(part.get("id")),
            )
        case "image":
            return Block("image", media=text_or_none(part.get("mimeType")) or "image")
        case kind:
            # The kind alone: what it holds may be another tool's binary data.
            return Block("other", name=text_or_none(kind))


def tool_result(message: dict[str, Any]) -> list[Block]:
    """Blocks of a tool's answer: its output, then its images."""
    parts = content_blocks(message.get("content"))
    output = "\n".join(block.text for block in parts if block.type == "text" and block.text)
    call_id, name = text_or_none(message.get("toolCallId")), text_or_none(message.get("toolName"))
    result = Block("tool_result", output, name, call_id, is_error=_failed(message, output))
    return [result, *(block for block in parts if block.type == "image")]


def bash_execution(message: dict[str, Any]) -> list[Block]:
    """Blocks of a command a person ran beside the conversation: the call and its output."""
    command = as_json({"command": message.get("command")})
    code = message.get("exitCode")
    failed = code != 0 if isinstance(code, int) else None
    output = drop_base64(text_or_none(message.get("output")) or "")
    return [Block("tool_call", command, "bash"), Block("tool_result", output, "bash", is_error=failed)]


def _failed(message: dict[str, Any], output: str) -> bool | None:
    """OpenClaw's tools report failures in their details, with isError false."""
    details = message.get("details")
    if isinstance(details, dict) and details.get("status") == "error":
        return True
    if details is None and output.startswith("{") and '"status":"error"' in output[:400].replace(" ", ""):
        return True
    flag = message.get("isError")
    return flag if isinstance(flag, bool) else None


def joined(blocks: list[Block]) -> str:
    """The text blocks' text, nothing else."""
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)


def text_or_none(value: object) -> str | None:
    """A string that holds something, as it is; None for anything else."""
    return value if isinstance(value, str) and value else None


def as_json(value: object) -> str:
    """Compact JSON."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
