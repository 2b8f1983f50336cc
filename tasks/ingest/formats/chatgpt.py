"""ChatGPT's export, `conversations.json`: an array of conversations, each a tree of message nodes.

The conversation is what leads from `current_node` back to the root; answers that were regenerated and prompts that
were edited hang beside it. They are yielded too, and marked inactive. Hidden messages, custom instructions and system
notes are synthetic: nobody said them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import iter_documents, starts_with
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
)
from slowwave.tasks.ingest.parsing.values import (
    active_path,
    as_dict,
    as_id,
    as_list,
    as_text,
    as_time,
    json_text,
    sample,
    speaker_of,
    spoken,
)

# Citations and widgets stand in the text between private-use characters: ⟨U+E200⟩cite⟨U+E202⟩turn0search1⟨U+E201⟩.
_MARKUP = re.compile("\ue200[^\ue200\ue201]*\ue201|【\\d+†[^】]*】")
_CONTEXT = ("user_editable_context", "model_editable_context")


def sniff(head: Head) -> bool:
    """Whether the file starts as an array (or lines) of objects with a `mapping` of nodes."""
    return starts_with(head, "mapping", "children") and not starts_with(head, "chat_messages")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Records of each conversation; `line` is the conversation's number in the file, from 1."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            yield from _conversation(*item)


def _conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    session = as_id(conversation.get("conversation_id")) or as_id(conversation.get("id"))
    nodes = {key: as_dict(node) for key, node in as_dict(conversation.get("mapping")).items()}
    if session is None or not nodes:
        missing = "id" if session is None else "mapping"
        yield Rejected(number, f"conversation without {missing}", sample(conversation))
        return
    yield Session(session, title=as_text(conversation.get("title")))
    parents = _parents(nodes)
    active = active_path(parents, _leaf(conversation, nodes))
    chosen = set(active)
    for key in active + [key for key in _in_tree_order(parents) if key not in chosen]:
        yield from _node(session, key, nodes, parents, number, inactive=key not in chosen)


def _leaf(conversation: dict[str, object], nodes: dict[str, dict[str, object]]) -> str | None:
    """`current_node`; where it is missing or unknown, the newest message."""
    current = as_text(conversation.get("current_node"))
    if current in nodes:
        return current
    return max(nodes, key=lambda key: _created(nodes[key]), default=None)


def _created(node: dict[str, object]) -> float:
    at = as_time(as_dict(node.get("message")).get("create_time"))
    return at.timestamp() if at else float("-inf")


def _parents(nodes: dict[str, dict[str, object]]) -> dict[str, str | None]:
    """Each node's parent; where the node names none that exists, the one that lists it as a child."""
    listed = {str(child): key for key, node in nodes.items() for child in as_list(node.get("children"))}
    named = {key: as_text(node.get("parent")) for key, node in nodes.items()}
    return {key: parent if parent in nodes else listed.get(key) for key, parent in named.items()}


def _in_tree_order(parents: dict[str, str | None]) -> list[str]:
    """Every node once, parents before children as far as there is an order (there is none in a cycle)."""
    order: dict[str, None] = {}
    for key in parents:
        climb: dict[str, None] = {}
        above: str | None = key
        while above is not None and above not in order and above not in climb:
            climb[above] = None
            above = parents[above]
        order.update(dict.fromkeys(reversed(climb)))
    return list(order)


def _node(
    session: str,
    key: str,
    nodes: dict[str, dict[str, object]],
    parents: dict[str, str | None],
    number: int,
    *,
    inactive: bool,
) -> Iterator[Record]:
    message = as_dict(nodes[key].get("message"))
    if not message:
        return  # the root and other joints of the tree
    author = as_dict(message.get("author"))
    known = speaker_of(author.get("role"))
    if known is None:
        yield Rejected(number, f"unknown author role {author.get('role')!r} in node {key}", sample(message))
        return
    role, origin = known
    content = as_dict(message.get("content"))
    blocks = _blocks(content, message, author)
    if not blocks:
        yield Skipped("empty message", number)
        return
    native_id = as_id(message.get("id")) or key
    yield Message(
        session=session,
        native_id=native_id,
        role=role,
        origin=_origin(origin, content, as_dict(message.get("metadata"))),
        blocks=blocks,
        text=_MARKUP.sub("", spoken(blocks)),
        ts=as_time(message.get("create_time")),
        parent_id=_message_above(key, nodes, parents),
        line=number,
    )
    if inactive:
        yield Inactive(session, native_id, "regenerated or edited")


def _origin(origin: Origin, content: dict[str, object], metadata: dict[str, object]) -> Origin:
    hidden = metadata.get("is_visually_hidden_from_conversation") is True or content.get("content_type") in _CONTEXT
    return "synthetic" if hidden and origin != "tool" else origin


def _message_above(key: str, nodes: dict[str, dict[str, object]], parents: dict[str, str | None]) -> str | None:
    """The id of the message above; joints without a message are passed over."""
    passed = {key}
    above = parents[key]
    while above is not None and above not in passed:
        if message := as_dict(nodes[above].get("message")):
            return as_id(message.get("id")) or above
        passed.add(above)
        above = parents[above]
    return None


def _blocks(content: dict[str, object], message: dict[str, object], author: dict[str, object]) -> list[Block]:
    """Blocks by content type; of an unknown type the text is kept, or the whole, as `other`."""
    kind = str(content.get("content_type"))
    metadata = as_dict(message.get("metadata"))
    body = as_text(content.get("text")) or as_text(content.get("result")) or as_text(content.get("content"))
    tool = as_text(author.get("name"))
    if author.get("role") in ("tool", "function") or kind in ("execution_output", "system_error"):
        return _result(content, body, tool, metadata)
    match kind:
        case "code":
            code = body or as_text(metadata.get("finished_text"))
            called = as_text(message.get("recipient"))
            to_tool = called not in (None, "all")
            return [Block("tool_call" if to_tool else "text", code, name=called if to_tool else None)] if code else []
        case "thoughts":
            thoughts = map(as_dict, as_list(content.get("thoughts")))
            return [Block("thinking", as_text(t.get("content")) or as_text(t.get("summary")) or "") for t in thoughts]
        case "text" | "multimodal_text":
            parts = [block for part in as_list(content.get("parts")) if (block := _part(part))]
            return parts or ([Block("text", body)] if body else [])
        case _:
            return _unknown(kind, content, body)


def _result(content: dict[str, object], body: str | None, tool: str | None, metadata: dict[str, object]) -> list[Block]:
    parts = [block for part in as_list(content.get("parts")) if (block := _part(part))]
    text = body or "\n".join(block.text for block in parts if block.text) or None
    status = as_text(as_dict(metadata.get("aggregate_result")).get("status")) or ""
    failed = content.get("content_type") == "system_error" or "exception" in status
    images = [block for block in parts if block.type == "image"]
    name = tool or as_text(content.get("name"))
    return [Block("tool_result", text, name=name, is_error=failed or None), *images] if text or images else []


def _unknown(kind: str, content: dict[str, object], body: str | None) -> list[Block]:
    if body:
        return [Block("other", body, name=kind)]
    parts = [Block("other", b.text, name=b.name or kind) for p in as_list(content.get("parts")) if (b := _part(p))]
    rest = {k: v for k, v in content.items() if k not in ("content_type", "parts") and v}
    return parts or ([Block("other", json_text(rest), name=kind)] if rest else [])


def _part(part: object) -> Block | None:
    if isinstance(part, str):
        return Block("text", part) if part.strip() else None
    fields = as_dict(part)
    match str(fields.get("content_type")):
        case "image_asset_pointer":
            return Block("image", name=as_text(fields.get("asset_pointer")))
        case "audio_transcription":
            said = as_text(fields.get("text"))
            return Block("text", said) if said else None
        case kind:
            return Block("other", as_text(fields.get("text")) or json_text(part), name=kind) if fields else None


READER = Reader("chatgpt", 1, sniff, read)
