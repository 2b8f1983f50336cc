"""Qwen Code: `~/.qwen/projects/<cwd>/chats/<sessionId>.jsonl`; sub-agents' in `subagents/<sessionId>/agent-*.jsonl`.

Its records are like Claude Code's, with messages like Gemini's: `message.parts` instead of `message.content`. So each
record is converted to Claude Code's form and read by that reader: a fork, which keeps the uuids of copied records, adds
no copies, and a sub-agent's prompt is an agent's. Only Qwen Code has tool results as records of a type of their own,
and `provenance`, which says which of the user's turns are the program's.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from slowwave.plugins.formats.chats import Fields, parse_gemini
from slowwave.tasks.ingest.formats.agents.claude_code import ClaudeTranscript
from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import (
    Head,
    Limits,
    Reader,
    Record,
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import coerce_dict, extract_tag_body

NAME = "qwen-code"
HOOK = "qwen:user-prompt-submit-context"
"""The tag around what a hook added to a prompt."""
BY_PERSON = (None, "real_user", "tool_result")
"""Provenance of the user's records that are a person's or a tool's."""


def sniff(head: Head) -> bool:
    """Return True if a record has Claude Code's ids and a message in Gemini's form."""
    return any(
        {"uuid", "sessionId"} <= line.keys()
        and isinstance(coerce_dict(line.get("message")).get("parts"), list)
        for line in head.objects
    )


def read(
    path: Path,
    limits: Limits,
) -> Iterator[Record]:
    """Yield records of one transcript, in the order of the file."""
    transcript = ClaudeTranscript(path, NAME)
    yield from read_each(
        iter_json(path, limits),
        lambda line, record: transcript.feed(line, _adapt(record)),
    )
    yield from transcript.finish()


def _adapt(record: Fields) -> Fields:
    """Return a record in Claude Code's form."""
    kind = record.get("type")
    message = coerce_dict(record.get("message"))
    if kind not in ("user", "assistant", "tool_result") or "parts" not in message:
        return record
    message = _drop_hook(message, coerce_dict(record.get("systemPayload")))
    blocks = parse_gemini(message, "assistant" if kind == "assistant" else "user")
    adapted: Fields = {
        **record,
        "message": {**message, "content": [asdict(block) for block in blocks]},
    }
    if kind == "tool_result":
        adapted["type"] = "user"
    text = "\n".join(
        block.text for block in blocks if block.type == "text" and block.text
    )
    is_program = (
        record.get("provenance") not in BY_PERSON
        and extract_tag_body(text, "task-notification") is None
    )
    return {**adapted, "isMeta": True} if kind == "user" and is_program else adapted


def _drop_hook(
    message: Fields,
    payload: Fields,
) -> Fields:
    """Return a message without the last part if a hook added it: then the record names the hook's text too."""
    parts = message["parts"]
    if not isinstance(parts, list) or not isinstance(payload.get("hookContext"), str):
        return message
    last = coerce_dict(parts[-1]).get("text") if parts[1:] else None
    if isinstance(last, str) and extract_tag_body(last, HOOK) is not None:
        return {**message, "parts": parts[:-1]}
    return message


_PLACES = lies_in(
    "QWEN_RUNTIME_DIR QWEN_HOME",
    ".qwen",
    ("projects",),
    "*/chats/*.jsonl",
    "*/subagents/**/*.jsonl",
)
READER = Reader(name=NAME, sniff=sniff, read=read, locations=_PLACES, version=5)
