"""Secrets out of what a transcript gave, before it is stored; what a secret is, `slowwave/text/redact.py` knows."""

from collections import Counter
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.records import Block, Message
from slowwave.text.redact import redact, redact_json, redact_text


def redact_id(native: str) -> str:
    """Return a transcript's own id; where a secret stands in it a hash of it, so that it stays one and no other's."""
    return native if redact_text(native) == native else f"redacted-{compute_content_id('id', native)}"


def redact_path(path: Path) -> str:
    """Return a path; where a secret stands in it with hashes for the parts that hold one, or else for all of it."""
    whole = str(path)
    if redact_text(whole) == whole:
        return whole
    parts = "/".join(map(redact_id, whole.split("/")))
    return parts if redact_text(parts) == parts else redact_id(whole)


def redact_message(message: Message) -> Counter[str]:
    """Replace the secrets in a message's text, blocks and ids, in place; how many of each kind there were in what was
    said.

    A secret that stands in a block and again in `text` counts once. A tool call's arguments stay valid JSON.
    """
    if message.speaker:
        message.speaker = redact_text(message.speaker)
    message.native_id = redact_id(message.native_id)
    message.parent_id = message.parent_id and redact_id(message.parent_id)
    said = message.text
    message.text, in_text = redact(said)
    in_blocks: Counter[str] = Counter()
    for block in message.blocks:
        block.call_id = block.call_id and redact_id(block.call_id)
        block.media = block.media and redact_id(block.media)
        if block.name:  # of a tool, but a file's or an address too
            block.name, in_name = redact(block.name)
            in_blocks += in_name
        if block.type != "tool_call" and block.text == said:
            block.text = message.text  # most messages are one block: it is looked through once
            in_blocks += in_text
        else:
            in_blocks += _redact_block(block)
    return in_text | in_blocks


def _redact_block(block: Block) -> Counter[str]:
    if not block.text:
        return Counter()
    block.text, found = redact_json(block.text) if block.type == "tool_call" else redact(block.text)
    return found
