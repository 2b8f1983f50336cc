"""ChatGPT's export, `conversations.json`: an array of conversations, each a tree of message nodes.

The conversation is the path from `current_node` back to the root. Regenerated answers and edited prompts are on other
branches: they are yielded too, and marked inactive. Hidden messages, custom instructions and system notes get the
origin `synthetic`, since nobody said them.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

from slowwave.plugins.formats.chats import (
    Chat,
    ChatFormat,
    Fields,
    drop_injected,
    get,
    get_id,
    get_objects,
    get_text,
)
from slowwave.tasks.ingest.parsing.lines import has_keys_in_head
from slowwave.tasks.ingest.parsing.records import Block, Head, Reader, Role, Session
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    trace_active_path,
)

# Citations and widgets are in the text, between private-use characters: ⟨U+E200⟩cite⟨U+E202⟩turn0search1⟨U+E201⟩.
_MARKUP = re.compile("\ue200[^\ue200\ue201]*\ue201|【\\d+†[^】]*】")
_CONTEXT = ("user_editable_context", "model_editable_context")
_ABOVE = "message above"
"""The field that holds the id of the parent's message."""
_NEVER = datetime.min.replace(tzinfo=UTC)


def sniff(head: Head) -> bool:
    """Return True if the file starts as an array (or lines) of objects with a `mapping` of nodes."""
    return has_keys_in_head(head, "mapping", "children") and not has_keys_in_head(
        head, "chat_messages"
    )


def _open_chatgpt(path: Path, number: int, fields: Fields) -> Chat | None:
    """Return the conversation: the path to the current node first, then the other messages, which are inactive."""
    session = get_id(fields, "conversation_id", "id")
    nodes = {
        key: coerce_dict(node)
        for key, node in coerce_dict(fields.get("mapping")).items()
    }
    if session is None:
        return None
    parents = _find_parents(nodes)
    active = dict.fromkeys(trace_active_path(parents, _find_leaf(fields, nodes)))
    # The root and other joints of the tree have no message.
    messages = {
        key: message
        for key in {**active, **nodes}
        if (message := coerce_dict(nodes[key].get("message")))
    }
    ids = {key: get_id(message, "id") or key for key, message in messages.items()}
    with_parents = [
        {**message, _ABOVE: ids.get(parents[key] or "")}
        for key, message in messages.items()
    ]
    return Chat(
        Session(session, title=get_text(fields, "title")),
        messages=with_parents if nodes else None,
        positions=messages,
        inactive=[ids[key] for key in messages if key not in active],
        text=lambda text, role: drop_injected(_MARKUP.sub("", text), role),
    )


def _find_leaf(fields: Fields, nodes: dict[str, Fields]) -> str | None:
    """Return the key of the current node; of the newest message if that node is missing or unknown; None without
    nodes.
    """
    leaf = coerce_text(fields.get("current_node"))
    if leaf in nodes:
        return leaf
    created = {
        key: coerce_time(get(node, "message.create_time")) or _NEVER
        for key, node in nodes.items()
    }
    return max(nodes, key=lambda key: created[key], default=None)


def _find_parents(nodes: dict[str, Fields]) -> dict[str, str | None]:
    """Return the parent of each node; if it names none that exists, the node that lists it as a child."""
    listed = {
        str(child): key
        for key, node in nodes.items()
        for child in coerce_list(node.get("children"))
    }
    parents = {key: get_text(node, "parent") for key, node in nodes.items()}
    return {
        key: parent if parent in nodes else listed.get(key)
        for key, parent in parents.items()
    }


def _is_hidden(message: Fields) -> bool:
    hidden = get(message, "metadata.is_visually_hidden_from_conversation") is True
    return hidden or get(message, "content.content_type") in _CONTEXT


def _parse_content(message: Fields, role: Role) -> list[Block]:
    """Return the blocks of a message, by its content type."""
    content = coerce_dict(message.get("content"))
    kind = str(content.get("content_type"))
    body = get_text(content, "text", "result", "content")
    parts = [
        block
        for part in coerce_list(content.get("parts"))
        if (block := _parse_part(part))
    ]
    if role == "tool" or kind in ("execution_output", "system_error"):
        return _parse_tool_output(message, body, parts)
    match kind:
        case "code":
            return _parse_code(message, body)
        case "thoughts":
            thoughts = get_objects(content, "thoughts")
            return [
                Block("thinking", get_text(thought, "content", "summary") or "")
                for thought in thoughts
            ]
        case "text" | "multimodal_text":
            return parts or ([Block("text", body)] if body else [])
        case _:
            return _parse_unknown(content=content, kind=kind, body=body, parts=parts)


def _parse_tool_output(
    message: Fields, body: str | None, parts: list[Block]
) -> list[Block]:
    """Return a tool's output and its images."""
    text = body or "\n".join(block.text for block in parts if block.text) or None
    status = get_text(message, "metadata.aggregate_result.status") or ""
    failed = (
        get(message, "content.content_type") == "system_error" or "exception" in status
    )
    images = [block for block in parts if block.type == "image"]
    if not text and not images:
        return []
    name = get_text(message, "author.name", "content.name")
    return [Block("tool_result", text, name=name, is_error=failed or None), *images]


def _parse_code(message: Fields, body: str | None) -> list[Block]:
    """Return a call of the tool that the code is sent to; code without such a recipient is text."""
    code = body or get_text(message, "metadata.finished_text")
    if not code:
        return []
    called = get_text(message, "recipient")
    if called in (None, "all"):
        return [Block("text", code)]
    return [Block("tool_call", code, name=called)]


def _parse_unknown(
    content: Fields,
    kind: str,
    body: str | None,
    parts: list[Block],
) -> list[Block]:
    """Return content of an unknown type as `other`: its text, else its parts, else all its fields as JSON."""
    if parts and not body:
        return [Block("other", part.text, name=part.name or kind) for part in parts]
    rest = {
        k: v for k, v in content.items() if k not in ("content_type", "parts") and v
    }
    whole = body or (encode_json(rest) if rest and not parts else None)
    return [Block("other", whole, name=kind)] if whole else []


def _parse_part(part: object) -> Block | None:
    if isinstance(part, str):
        return Block("text", part) if part.strip() else None
    fields = coerce_dict(part)
    match str(fields.get("content_type")):
        case "image_asset_pointer":
            return Block("image", name=coerce_text(fields.get("asset_pointer")))
        case "audio_transcription":
            text = coerce_text(fields.get("text"))
            return Block("text", text) if text else None
        case kind:
            return (
                Block(
                    "other",
                    coerce_text(fields.get("text")) or encode_json(part),
                    name=kind,
                )
                if fields
                else None
            )


CHATGPT = ChatFormat(
    open=_open_chatgpt,
    parse=_parse_content,
    role="author.role",
    time=("create_time",),
    parent=_ABOVE,
    hides=_is_hidden,
)
READER = Reader("chatgpt", sniff, CHATGPT.read, version=4)
