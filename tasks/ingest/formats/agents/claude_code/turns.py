"""Whose turn a Claude Code `user` record really is: a person's, another agent's, or the tool's own."""

from dataclasses import dataclass
from pathlib import Path

import orjson

from slowwave.tasks.ingest.formats.agents.claude_code.blocks import AGENT_TAGS
from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import extract_tag_attribute, extract_tag_body

Json = dict[str, object]

_AGENT_KINDS = frozenset({"task-notification", "coordinator", "peer", "teammate", "agent", "subagent"})
_META_BYTES = 64 * 1024


@dataclass(slots=True)
class Sender:
    """Another agent whose words stand in a turn of the user."""

    words: str
    name: str | None
    enveloped: bool
    """In a tag of their own, so that a person's words may stand beside them."""


def detect_sender(record: Json, text: str) -> Sender | None:
    """Return the agent that wrote the turn, if any did."""
    if "<" in text:
        for tag in AGENT_TAGS:
            body = extract_tag_body(text, tag)
            if body is not None:
                # A notification wraps the sub-agent's real answer in <result>, its one-line account in <summary>.
                words = extract_tag_body(body, "result") or extract_tag_body(body, "summary") or body
                return Sender(words, extract_tag_attribute(text, tag, "teammate_id"), enveloped=True)
    origin = record.get("origin")
    if isinstance(origin, dict) and (str(origin.get("kind")) in _AGENT_KINDS or "senderTaskId" in origin):
        name = origin.get("from")
        return Sender("", name if isinstance(name, str) else None, enveloped=False)
    return None


def get_origin_kind(record: Json) -> object:
    """Return `origin.kind`, where newer versions say who started the turn."""
    origin = record.get("origin")
    return origin.get("kind") if isinstance(origin, dict) else None


def get_content(record: Json) -> object:
    """Return the message's content, also where `message` is a bare string; None where there is none."""
    message = record.get("message")
    return message.get("content") if isinstance(message, dict) else message if isinstance(message, str) else None


def fill_results(blocks: list[Block], structured: object) -> None:
    """Give a lone empty tool result what the record keeps of the output beside it (`toolUseResult`)."""
    if len(blocks) != 1 or blocks[0].text or not structured:
        return
    if isinstance(structured, str):
        blocks[0].text = structured
    elif isinstance(structured, dict):
        streams = (structured.get(name) for name in ("stdout", "stderr", "content"))
        blocks[0].text = "\n".join(part for part in streams if isinstance(part, str) and part)


def is_warm_up_prompt(content: object) -> bool:
    """Return the prompt `Warmup`, as a string or a single text block."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text")
    return content == "Warmup"


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
    if not meta.is_file():
        return None
    try:
        with meta.open("rb") as stream:
            found = orjson.loads(stream.read(_META_BYTES))
    except (OSError, orjson.JSONDecodeError):
        return None
    kind = found.get("agentType") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else None
