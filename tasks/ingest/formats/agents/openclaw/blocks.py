"""The content of OpenClaw's and pi's messages as typed blocks."""

from typing import Any

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import coerce_text, drop_base64, dump_json


def parse_openclaw_content(content: object) -> list[Block]:
    """Return typed blocks of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return [Block("text", drop_base64(content))] if content else []
    parts = content if isinstance(content, list) else []
    return [_parse_part(part) for part in parts if part is not None]


def _parse_part(part: object) -> Block:
    if isinstance(part, str):
        return Block("text", drop_base64(part))
    if not isinstance(part, dict):
        return Block("other", dump_json(part))
    match part.get("type"):
        case "text":
            return Block("text", drop_base64(coerce_text(part.get("text")) or ""))
        case "thinking":
            return Block("thinking", coerce_text(part.get("thinking")) or "")
        case "toolCall" | "tool_call" | "tool_use" | "functionCall":
            arguments = part.get("arguments", part.get("input"))
            given = arguments if isinstance(arguments, str) else dump_json(arguments)
            return Block(
                "tool_call",
                drop_base64(given),
                name=coerce_text(part.get("name")),
                call_id=coerce_text(part.get("id")),
            )
        case "image":
            return Block("image", media=coerce_text(part.get("mimeType")) or "image")
        case kind:
            # The kind alone: what it holds may be another tool's binary data.
            return Block("other", name=coerce_text(kind))


def parse_openclaw_result(message: dict[str, Any]) -> list[Block]:
    """Return blocks of a tool's answer: its output, then its images."""
    parts = parse_openclaw_content(message.get("content"))
    output = "\n".join(block.text for block in parts if block.type == "text" and block.text)
    call_id, name = coerce_text(message.get("toolCallId")), coerce_text(message.get("toolName"))
    result = Block("tool_result", output, name, call_id, is_error=_detect_failure(message, output))
    return [result, *(block for block in parts if block.type == "image")]


def parse_bash_execution(message: dict[str, Any]) -> list[Block]:
    """Return blocks of a command a person ran beside the conversation: the call and its output."""
    command = dump_json({"command": message.get("command")})
    code = message.get("exitCode")
    failed = code != 0 if isinstance(code, int) else None
    output = drop_base64(coerce_text(message.get("output")) or "")
    return [Block("tool_call", command, "bash"), Block("tool_result", output, "bash", is_error=failed)]


def _detect_failure(message: dict[str, Any], output: str) -> bool | None:
    """Return whether a tool failed: OpenClaw's tools report it in their details, with isError false."""
    details = message.get("details")
    if isinstance(details, dict) and details.get("status") == "error":
        return True
    if details is None and output.startswith("{") and '"status":"error"' in output[:400].replace(" ", ""):
        return True
    flag = message.get("isError")
    return flag if isinstance(flag, bool) else None


def join_openclaw_text(blocks: list[Block]) -> str:
    """Return the text blocks' text, nothing else."""
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)
