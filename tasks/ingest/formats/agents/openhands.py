"""OpenHands' conversations as it hands them out: an array of events, or a run's object with one in `history`.

An event is an action (`message`, `run`, `edit` …) of a person or the agent, or the observation that an earlier action
caused. What the model was asked and answered stands in `tool_call_metadata`.
"""

from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    format_excerpt,
    parse_tool_call,
)

_NOISE = frozenset(
    ("change_agent_state", "agent_state_changed", "recall", "null", "condensation", "condensation_request")
)
"""Actions and observations of the program itself."""
_BESIDES = ("thought", "image_urls", "file_urls", "wait_for_response", "impl_source", "translated_ipython_code")
"""Of an action's arguments, what is no argument of its tool."""

Fields = dict[str, object]


def sniff(head: Head) -> bool:
    """Return whether the file starts as events, or as a run that has some."""
    events = has_leading_keys(head, "id", "timestamp", "source", "message") and b'"args"' in head.data
    runs = has_leading_keys(head, "instance_id", "history", "source", "action")
    return events or runs or has_leading_keys(head, "trajectory", "timestamp", "source", "action")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the events; `line` is an event's number, or its run's."""
    name, told = path.name.split(".")[0], False
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        number, fields = item
        run = next((held for key in ("history", "trajectory") if (held := fields.get(key)) is not None), None)
        if run is not None:
            session = coerce_id(fields.get("instance_id")) or (name if number == 1 else f"{name}:{number}")
            events = [coerce_dict(one) for one in coerce_list(run)]
            session = _name_run(session, path, events[0] if events else {})
            yield Session(session)
            for position, event in enumerate(events):
                yield from _parse_event(session, position, event, number)
            continue
        if not told:
            name, told = _name_run(name, path, fields), True
            yield Session(name)
        yield from _parse_event(name, number, fields, number)


def _name_run(session: str, path: Path, first: Fields) -> str:
    """Return the session's name, with when it began where every run's file is called alike."""
    began = coerce_text(first.get("timestamp"))
    return f"{session}@{began}" if began and path.name.split(".")[0] == "trajectory" else session


def _parse_event(session: str, position: int, event: Fields, line: int) -> Iterator[Record]:
    key, at = coerce_id(event.get("id")) or f"#{position}", coerce_time(event.get("timestamp"))
    action, observation = coerce_text(event.get("action")), coerce_text(event.get("observation"))
    if (kind := action or observation) is None:
        yield Rejected(line, f"event {key} is neither an action nor an observation", format_excerpt(event))
        return
    if kind in _NOISE:
        yield from _find_workspace(session, event)
        yield Skipped(kind, line)
    elif action is None:
        metadata = coerce_dict(event.get("tool_call_metadata"))
        call = coerce_id(metadata.get("tool_call_id")) or coerce_id(event.get("cause"))
        said = coerce_text(event.get("content")) or coerce_text(event.get("message")) or ""
        block = Block("tool_result", said, name=kind, call_id=call, is_error=_has_failed(kind, event))
        yield Message(session, key, "tool", "tool", [block], "", at, line=line)
    else:
        text, blocks = _parse_action(action, key, event)
        if not blocks:
            yield Skipped("empty message", line)
        elif action == "system":
            yield Message(session, key, "system", "synthetic", blocks, text, at, line=line)
        elif event.get("source") == "user":
            yield Message(session, key, "user", "human", blocks, text, at, line=line)
        else:
            yield Message(session, key, "assistant", "model", blocks, text, at, line=line)


def _find_workspace(session: str, event: Fields) -> Iterator[Session]:
    """Yield the session's repository, where the program recalls it."""
    extras = coerce_dict(event.get("extras"))
    if folder := coerce_text(extras.get("repo_directory")):
        yield Session(session, workspace=folder)


def _has_failed(kind: str, event: Fields) -> bool | None:
    extras = coerce_dict(event.get("extras"))
    code = coerce_dict(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    if kind == "error":
        return True
    return code != 0 if isinstance(code, int) else None


def _parse_action(action: str, key: str, event: Fields) -> tuple[str, list[Block]]:
    """Return what an action says, and its blocks."""
    args = coerce_dict(event.get("args"))
    if action in ("message", "system"):
        said = coerce_text(args.get("content")) or coerce_text(event.get("message"))
        images = [Block("image") for _ in coerce_list(args.get("image_urls"))]
        return said or "", [*([Block("text", said)] if said else []), *images]
    thought = (coerce_text(args.get("thought")) or "").strip()
    if action == "think":
        return "", [Block("thinking", thought)] if thought else []
    said = (coerce_text(args.get("final_thought")) or thought).strip()
    return said, [*([Block("text", said)] if said else []), _parse_call(action, key, args, event)]


def _parse_call(action: str, key: str, args: Fields, event: Fields) -> Block:
    """Return the call as the model made it, else the action's own arguments."""
    metadata = coerce_dict(event.get("tool_call_metadata"))
    wanted = coerce_id(metadata.get("tool_call_id"))
    for choice in map(coerce_dict, coerce_list(coerce_dict(metadata.get("model_response")).get("choices"))):
        for call in map(coerce_dict, coerce_list(coerce_dict(choice.get("message")).get("tool_calls"))):
            if wanted and call.get("id") == wanted:
                return parse_tool_call(call)
    own = {name: value for name, value in args.items() if name not in _BESIDES}
    name = coerce_text(metadata.get("function_name")) or action
    return Block("tool_call", encode_json(own), name=name, call_id=wanted or key)


READER = Reader("openhands", 1, sniff, read)
