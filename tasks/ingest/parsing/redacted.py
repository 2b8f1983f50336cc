"""Redact blocks and ids before they are hashed. A short secret could be guessed in a second from its hash.

If nothing is redacted, the id is that of the words themselves.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import encode_json
from slowwave.text.redact import NONE, redact, redact_json, redact_text


def redact_block(
    block: Block, keep: frozenset[str] = NONE
) -> tuple[Block, Counter[str]]:
    """Return a block with its secrets replaced, and the number of secrets of each kind in its name and text.

    A word in `keep` is left as it is. A tool call's arguments stay valid JSON. The name is redacted too, since it may
    be a file's or an address.
    """
    name, in_name = (
        redact(block.name, keep) if block.name else (block.name, Counter[str]())
    )
    text = block.text
    in_text = Counter[str]()
    if text:
        clean = redact_json if block.type == "tool_call" else redact
        text, in_text = clean(text, keep)
    call_id = block.call_id and redact_id(block.call_id)
    media = block.media and redact_id(block.media)
    return replace(
        block, name=name, text=text, call_id=call_id, media=media
    ), in_name + in_text


def redact_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks with their secrets replaced."""
    return [redact_block(block)[0] for block in blocks]


def encode_redacted(value: object) -> str:
    """Return the value as compact JSON, or a string as it is, with secrets replaced, also in strings that are JSON."""
    return (
        redact_text(value)
        if isinstance(value, str)
        else redact_json(encode_json(_redact_texts(value)))[0]
    )


def redact_id(native: str) -> str:
    """Return a transcript's own id; if it has a secret, a hash of it, which stays unique."""
    return (
        native
        if redact_text(native) == native
        else f"redacted-{compute_content_id('id', native)}"
    )


def _redact_texts(value: object) -> object:
    match value:
        case str() if value[:1] in ("{", "["):
            return redact_json(value)[0]
        case list():
            return list(map(_redact_texts, value))
        case dict():
            return {key: _redact_texts(member) for key, member in value.items()}
        case _:
            return value
