"""SWE-agent's runs (`.traj`) and mini-swe-agent's (`.traj.json`): one JSON document a run, written again at each step.

`history` (mini: `messages`) is what was said; `trajectory` tells the same steps again, and is read where there is no
history. What the program asks first is its template around a task: the task is the person's, where the file names the
template or the task, else all of it.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
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
    flatten_text,
    format_excerpt,
    join_text_blocks,
    parse_blocks,
    parse_tool_call,
)

SUFFIX = ".traj"
_TASK = re.compile(r"\{\{-?\s*(?:task|problem_statement)\s*-?\}\}")
_JINJA = re.compile(r"\{[{%]")
_BEGINNING = 3
"""Messages by which a run is known beside its name: the rules, the task and the first answer."""


def sniff(head: Head) -> bool:
    """Return whether the file starts as a run of either program."""
    return (
        has_leading_keys(head, "trajectory", "observation", "response")
        or has_leading_keys(head, "history", "role", "agent")
        or has_leading_keys(head, "info", "submission", "model_stats")
        or has_leading_keys(head, "info", "mini_version")
        or has_leading_keys(head, "messages", "trajectory_format")
    )


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each run; `line` is its number."""
    return read_each(iter_documents(path, limits), partial(_read_run, path.name.split(SUFFIX)[0]))


def _read_run(name: str, number: int, run: dict[str, object]) -> Iterator[Record]:
    steps = coerce_list(run.get("trajectory"))
    said = next((held for key in ("history", "messages") if (held := coerce_list(run.get(key)))), None)
    said = list(_spell_out_steps(steps)) if said is None else said
    if not said:
        yield Rejected(number, "run without history, messages or trajectory", format_excerpt(run))
        return
    beginning = [encode_json(coerce_dict(one).get("content")) for one in said[:_BEGINNING]]
    session = f"{name}@{compute_content_id(*beginning)[:12]}"  # runs of one task lie in folders of one name a file
    yield Session(session, workspace=_find_workspace(run, steps), title=name)
    answered = False
    for position, one in enumerate(said):
        fields = coerce_dict(one)
        record = _parse_message(session, position, fields, answered, _find_task(run), number)
        answered = answered or fields.get("role") == "assistant"
        yield record


def _spell_out_steps(steps: list[object]) -> Iterator[dict[str, object]]:
    """Yield the messages that the steps of a run without a history stand for."""
    for step in map(coerce_dict, steps):
        yield {"role": "assistant", "content": step.get("response"), "action": step.get("action")}
        yield {"role": "tool", "content": step.get("observation")}


def _find_workspace(run: dict[str, object], steps: list[object]) -> str | None:
    """Return where the agent worked; of a container that holds whatever project is under test (mini's) nothing is
    told.
    """
    state = coerce_dict(next(iter(steps), None)).get("state")
    if isinstance(state, str):
        try:
            state = orjson.loads(state)
        except orjson.JSONDecodeError:
            state = None
    environment = coerce_dict(coerce_dict(coerce_dict(run.get("info")).get("config")).get("environment"))
    own = None if environment.get("image") else coerce_text(environment.get("cwd"))
    return coerce_text(coerce_dict(state).get("working_dir")) or own


def _find_task(run: dict[str, object]) -> tuple[str, str]:
    """Return what stands before a task in the first question, and the first of what stands after it; empty where
    unknown.
    """
    agent = coerce_dict(coerce_dict(coerce_dict(run.get("info")).get("config")).get("agent"))
    before, found, after = _split_once(_TASK, coerce_text(agent.get("instance_template")) or "")
    if not found or _JINJA.search(before):
        return "", ""
    return before.lstrip(), _JINJA.split(after.strip(), maxsplit=1)[0].split("\n")[0].strip()


def _split_once(pattern: re.Pattern[str], text: str) -> tuple[str, bool, str]:
    found = pattern.search(text)
    return (text[: found.start()], True, text[found.end() :]) if found else (text, False, "")


def _parse_message(
    session: str, position: int, fields: dict[str, object], answered: bool, around: tuple[str, str], line: int
) -> Message | Rejected | Skipped:
    if fields.get("is_demo") is True:
        return Skipped("demonstration", line)
    if (role := coerce_text(fields.get("role"))) == "exit":
        return Skipped("exit", line)  # mini's last: the patch that the run ended with, which `info` has too
    known, content = _tell_speaker(role, answered), parse_blocks(fields.get("content"))
    if known is None or content is None:
        why = f"unknown role {fields.get('role')!r}" if known is None else "content is neither text nor a list"
        return Rejected(line, f"message {position}: {why}", format_excerpt(fields))
    blocks = [*_parse_thinking(fields), *content, *_parse_calls(fields)]
    if known[0] == "tool":
        called = coerce_list(fields.get("tool_call_ids")) or [fields.get("tool_call_id")]
        blocks = [Block("tool_result", flatten_text(fields.get("content")) or "", call_id=coerce_id(called[0]))]
    if not blocks or not any(block.text or block.type == "image" for block in blocks):
        return Skipped("empty message", line)
    extra = coerce_dict(fields.get("extra"))
    at = coerce_time(extra.get("timestamp") or coerce_dict(extra.get("response")).get("created"))
    text = join_text_blocks(blocks)
    return Message(
        session,
        str(position),
        *known,
        blocks,
        _extract_task(text, *around) if known[0] == "user" else text,
        at,
        line=line,
    )


def _tell_speaker(role: str | None, answered: bool) -> tuple[Role, Origin] | None:
    """Return role and origin; after the first answer the user's words are what the commands printed."""
    match role:
        case "system":
            return "system", "synthetic"
        case "user":
            return ("tool", "tool") if answered else ("user", "human")
        case "assistant":
            return "assistant", "model"
        case "tool":
            return "tool", "tool"
    return None


def _parse_thinking(fields: dict[str, object]) -> Iterator[Block]:
    thoughts = [coerce_dict(one).get("thinking") for one in coerce_list(fields.get("thinking_blocks"))]
    for thought in map(coerce_text, thoughts or [fields.get("reasoning_content")]):
        if thought:
            yield Block("thinking", thought)


def _parse_calls(fields: dict[str, object]) -> Iterator[Block]:
    """Yield the calls of tools; of a run whose model writes commands into its text, the commands."""
    if calls := coerce_list(fields.get("tool_calls")):
        yield from (parse_tool_call(coerce_dict(call)) for call in calls)
        return
    actions = [coerce_dict(one).get("command") for one in coerce_list(coerce_dict(fields.get("extra")).get("actions"))]
    for command in map(coerce_text, actions or [fields.get("action")]):
        if command and command.strip():
            yield Block("tool_call", encode_json({"command": command.strip()}), name="bash")


def _extract_task(asked: str, before: str, after: str) -> str:
    """Return the task alone, where what stands around it is known and found."""
    if not before or not asked.startswith(before):
        return asked
    task = asked[len(before) :]
    return (task[: task.index(after)] if after and after in task else task).strip()


READER = Reader("swe-agent", 1, sniff, read)
