"""Secrets out of what a transcript gave, before it is stored; what a secret is, `slowwave/text/redact.py` knows."""

from collections import Counter

from slowwave.tasks.ingest.parsing.records import Block, Message
from slowwave.text.redact import redact, redact_json, redact_text


def redact_message(message: Message) -> Counter[str]:
    """Replace the secrets in a message's text and blocks, in place; how many of each kind there were.

    A secret that stands in a block and again in `text` counts once. A tool call's arguments stay valid JSON.
    """
    if message.speaker:
        message.speaker = redact_text(message.speaker)
    said = message.text
    message.text, in_text = redact(said)
    in_blocks: Counter[str] = Counter()
    for block in message.blocks:
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
