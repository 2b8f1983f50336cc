"""What a record of Claude Code holds: its content as typed blocks, the words in it, and whose turn it is."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_dict,
    coerce_text,
    extract_tag_attribute,
    extract_tag_body,
    join_text,
    strip_tags,
)

Json = dict[str, object]

AGENT_TAGS = ("task-notification", "teammate-message")
"""Envelopes around another agent's words, delivered in the user's turn."""

NOISE_TAGS = (
    *("command-name", "command-message", "command-args", "command-contents"),
    *("local-command-stdout", "local-command-stderr", "local-command-caveat"),
    *("bash-input", "bash-stdout", "bash-stderr", "user-memory-input", "user-prompt-submit-hook"),
    *("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics"),
    *AGENT_TAGS,
)
CAVEAT = "Caveat: The messages below"
INTERRUPTED = "[Request interrupted by user"
CONTINUED = "This session is being continued from a previous conversation"

_AGENT_KINDS = frozenset({"task-notification", "coordinator", "peer", "teammate", "agent", "subagent"})
_META_BYTES = 64 * 1024


# Content.


def get_content(record: Json) -> object:
    """Return the message's content, also where `message` is a bare string; None where there is none."""
    message = record.get("message")
    return message if isinstance(message, str) else coerce_dict(message).get("content")


def fill_results(blocks: list[Block], structured: object) -> None:
    """Give a lone empty tool result what the record keeps of the output beside it (`toolUseResult`)."""
    if len(blocks) == 1 and not blocks[0].text:
        streams = (coerce_dict(structured).get(name) for name in ("stdout", "stderr", "content"))
        blocks[0].text = coerce_text(structured) or "\n".join(filter(None, map(coerce_text, streams)))


def join_claude_text(blocks: list[Block]) -> str:
    """Return the text blocks' text, nothing else."""
    return clean_text(join_text(blocks, "\n\n"))


def extract_claude_user_text(text: str) -> str:
    """Return what the person typed: the tool's tags, caveats and interruption marks taken out of `join_claude_text`
    text.
    """
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(CAVEAT):
        text = text.partition("\n")[2].strip()
    if text.startswith(INTERRUPTED):
        text = text.partition("]")[2].strip()
    return text


# Whose turn it is.


@dataclass(slots=True)
class Sender:
    """Another agent whose words stand in a turn of the user."""

    words: str
    name: str | None
    enveloped: bool
    """In a tag of their own, so that a person's words may stand beside them."""


def detect_sender(record: Json, text: str) -> Sender | None:
    """Return the agent that wrote the turn, if any did."""
    for tag in AGENT_TAGS:
        body = extract_tag_body(text, tag)
        if body is not None:
            # A notification wraps the sub-agent's real answer in <result>, its one-line account in <summary>.
            words = extract_tag_body(body, "result") or extract_tag_body(body, "summary") or body
            return Sender(words, extract_tag_attribute(text, tag, "teammate_id"), enveloped=True)
    origin = coerce_dict(record.get("origin"))
    if str(origin.get("kind")) in _AGENT_KINDS or "senderTaskId" in origin:
        return Sender("", coerce_text(origin.get("from")), enveloped=False)
    return None


def is_warm_up_prompt(content: object) -> bool:
    """Return whether the content is the prompt `Warmup`, as a string or a single text block."""
    if isinstance(content, list) and len(content) == 1:
        content = coerce_dict(content[0]).get("text")
    return content == "Warmup"


# What the path of a sub-agent's file tells.


def find_parent_session(path: Path) -> str:
    """Return the session a sub-agent's file lies under: `<sessionId>/subagents/…`.

    Its own stem where that can't be told.
    """
    parts = path.parts
    at = parts.index("subagents") if "subagents" in parts else 0
    return parts[at - 1] if at else path.name.split(".jsonl")[0]


def read_agent_type(path: Path) -> str | None:
    """Return what kind of agent a sub-agent's file is of, from the small `.meta.json` beside it."""
    meta = path.with_name(path.name.split(".jsonl")[0] + ".meta.json")
    if meta.is_file():
        with suppress(OSError, orjson.JSONDecodeError), meta.open("rb") as stream:
            return coerce_text(coerce_dict(orjson.loads(stream.read(_META_BYTES))).get("agentType"))
    return None
