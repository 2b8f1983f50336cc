"""Ids made of words: of the words as they are stored, because a short secret is guessed from a hash of it in a second.

Where nothing is redacted, the id is the one that the words themselves give.
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
    """Return a block as it is stored, and how many secrets of each kind were in it.

    A word in `keep` is left as it is. A tool call's arguments stay valid JSON.
    A block's name is a tool's, but a file's or an address too.
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
    """Return the blocks as they are stored."""
    return [redact_block(block)[0] for block in blocks]


def encode_redacted(value: object) -> str:
    """As `encode_json`, with the secrets replaced, also those in texts that are JSON themselves."""
    return (
        redact_text(value)
        if isinstance(value, str)
        else redact_json(encode_json(_redact_texts(value)))[0]
    )


def redact_id(native: str) -> str:
    """Return a transcript's own id; where a secret stands in it a hash of it, so that it stays one and no other's."""
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
