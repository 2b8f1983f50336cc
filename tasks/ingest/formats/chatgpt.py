"""ChatGPT's export, `conversations.json`: an array of conversations, each a tree of message nodes.

The conversation is what leads from `current_node` back to the root; answers that were regenerated and prompts that
were edited hang beside it. They are yielded too, and marked inactive. Hidden messages, custom instructions and system
notes are synthetic: nobody said them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    format_excerpt,
    join_text_blocks,
    parse_role,
    trace_active_path,
)

# Citations and widgets stand in the text between private-use characters: ⟨U+E200⟩cite⟨U+E202⟩turn0search1⟨U+E201⟩.
_MARKUP = re.compile("\ue200[^\ue200\ue201]*\ue201|【\\d+†[^】]*】")
_CONTEXT = ("user_editable_context", "model_editable_context")


def sniff(head: Head) -> bool:
    """Return whether the file starts as an array (or lines) of objects with a `mapping` of nodes."""
    return has_leading_keys(head, "mapping", "children") and not has_leading_keys(head, "chat_messages")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is the conversation's number in the file, from 1."""
    return read_each(iter_documents(path, limits), _read_conversation)


def _read_conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    session = coerce_id(conversation.get("conversation_id")) or coerce_id(conversation.get("id"))
    nodes = {key: coerce_dict(node) for key, node in coerce_dict(conversation.get("mapping")).items()}
    if session is None or not nodes:
        missing = "id" if session is None else "mapping"
        yield Rejected(number, f"conversation without {missing}", format_excerpt(conversation))
        return
    yield Session(session, title=coerce_text(conversation.get("title")))
    parents = _map_parents(nodes)
    active = trace_active_path(parents, _find_leaf(conversation, nodes))
    chosen = set(active)
    for key in active + [key for key in _sort_by_tree(parents) if key not in chosen]:
        yield from _read_node(session, key, nodes, parents, number, inactive=key not in chosen)


def _find_leaf(conversation: dict[str, object], nodes: dict[str, dict[str, object]]) -> str | None:
    """Return `current_node`; where it is missing or unknown, the newest message."""
    current = coerce_text(conversation.get("current_node"))
    if current in nodes:
        return current
    return max(nodes, key=lambda key: _get_created_time(nodes[key]), default=None)


def _get_created_time(node: dict[str, object]) -> float:
    at = coerce_time(coerce_dict(node.get("message")).get("create_time"))
    return at.timestamp() if at else float("-inf")


def _map_parents(nodes: dict[str, dict[str, object]]) -> dict[str, str | None]:
    """Return each node's parent; where the node names none that exists, the one that lists it as a child."""
    listed = {str(child): key for key, node in nodes.items() for child in coerce_list(node.get("children"))}
    named = {key: coerce_text(node.get("parent")) for key, node in nodes.items()}
    return {key: parent if parent in nodes else listed.get(key) for key, parent in named.items()}


def _sort_by_tree(parents: dict[str, str | None]) -> list[str]:
    """Return every node once, parents before children as far as there is an order (there is none in a cycle)."""
    order: dict[str, None] = {}
    for key in parents:
        climb: dict[str, None] = {}
        above: str | None = key
        while above is not None and above not in order and above not in climb:
            climb[above] = None
            above = parents[above]
        order.update(dict.fromkeys(reversed(climb)))
    return list(order)


def _read_node(
    session: str,
    key: str,
    nodes: dict[str, dict[str, object]],
    parents: dict[str, str | None],
    number: int,
    *,
    inactive: bool,
) -> Iterator[Record]:
    message = coerce_dict(nodes[key].get("message"))
    if not message:
        return  # the root and other joints of the tree
    author = coerce_dict(message.get("author"))
    known = parse_role(author.get("role"))
    if known is None:
        yield Rejected(number, f"unknown author role {author.get('role')!r} in node {key}", format_excerpt(message))
        return
    role, origin = known
    content = coerce_dict(message.get("content"))
    blocks = _parse_content(content, message, author)
    if not blocks:
        yield Skipped("empty message", number)
        return
    native_id = coerce_id(message.get("id")) or key
    yield Message(
        session=session,
        native_id=native_id,
        role=role,
        origin=_resolve_origin(origin, content, coerce_dict(message.get("metadata"))),
        blocks=blocks,
        text=_MARKUP.sub("", join_text_blocks(blocks)),
        ts=coerce_time(message.get("create_time")),
        parent_id=_find_parent_message(key, nodes, parents),
        line=number,
    )
    if inactive:
        yield Inactive(session, native_id, "regenerated or edited")


def _resolve_origin(origin: Origin, content: dict[str, object], metadata: dict[str, object]) -> Origin:
    hidden = metadata.get("is_visually_hidden_from_conversation") is True or content.get("content_type") in _CONTEXT
    return "synthetic" if hidden and origin != "tool" else origin


def _find_parent_message(key: str, nodes: dict[str, dict[str, object]], parents: dict[str, str | None]) -> str | None:
    """Return the id of the message above; joints without a message are passed over."""
    passed = {key}
    above = parents[key]
    while above is not None and above not in passed:
        if message := coerce_dict(nodes[above].get("message")):
            return coerce_id(message.get("id")) or above
        passed.add(above)
        above = parents[above]
    return None


def _parse_content(content: dict[str, object], message: dict[str, object], author: dict[str, object]) -> list[Block]:
    """Return blocks by content type; of an unknown type the text is kept, or the whole, as `other`."""
    kind = str(content.get("content_type"))
    metadata = coerce_dict(message.get("metadata"))
    body = coerce_text(content.get("text")) or coerce_text(content.get("result")) or coerce_text(content.get("content"))
    tool = coerce_text(author.get("name"))
    if author.get("role") in ("tool", "function") or kind in ("execution_output", "system_error"):
        return _parse_result(content, body, tool, metadata)
    match kind:
        case "code":
            code = body or coerce_text(metadata.get("finished_text"))
            called = coerce_text(message.get("recipient"))
            to_tool = called not in (None, "all")
            return [Block("tool_call" if to_tool else "text", code, name=called if to_tool else None)] if code else []
        case "thoughts":
            thoughts = map(coerce_dict, coerce_list(content.get("thoughts")))
            return [
                Block("thinking", coerce_text(t.get("content")) or coerce_text(t.get("summary")) or "")
                for t in thoughts
            ]
        case "text" | "multimodal_text":
            parts = [block for part in coerce_list(content.get("parts")) if (block := _parse_part(part))]
            return parts or ([Block("text", body)] if body else [])
        case _:
            return _parse_unknown(kind, content, body)


def _parse_result(
    content: dict[str, object], body: str | None, tool: str | None, metadata: dict[str, object]
) -> list[Block]:
    parts = [block for part in coerce_list(content.get("parts")) if (block := _parse_part(part))]
    text = body or "\n".join(block.text for block in parts if block.text) or None
    status = coerce_text(coerce_dict(metadata.get("aggregate_result")).get("status")) or ""
    failed = content.get("content_type") == "system_error" or "exception" in status
    images = [block for block in parts if block.type == "image"]
    name = tool or coerce_text(content.get("name"))
    return [Block("tool_result", text, name=name, is_error=failed or None), *images] if text or images else []


def _parse_unknown(kind: str, content: dict[str, object], body: str | None) -> list[Block]:
    if body:
        return [Block("other", body, name=kind)]
    parts = [
        Block("other", b.text, name=b.name or kind) for p in coerce_list(content.get("parts")) if (b := _parse_part(p))
    ]
    rest = {k: v for k, v in content.items() if k not in ("content_type", "parts") and v}
    return parts or ([Block("other", encode_json(rest), name=kind)] if rest else [])


def _parse_part(part: object) -> Block | None:
    if isinstance(part, str):
        return Block("text", part) if part.strip() else None
    fields = coerce_dict(part)
    match str(fields.get("content_type")):
        case "image_asset_pointer":
            return Block("image", name=coerce_text(fields.get("asset_pointer")))
        case "audio_transcription":
            said = coerce_text(fields.get("text"))
            return Block("text", said) if said else None
        case kind:
            return Block("other", coerce_text(fields.get("text")) or encode_json(part), name=kind) if fields else None


READER = Reader("chatgpt", 1, sniff, read)
