"""Parse the content of messages of OpenClaw and pi: typed blocks, and OpenClaw's texts without their wrapping.

OpenClaw wraps a person's text before it goes to the model (with the sender, the time, and the message it answers), and
stores the wrapped text. It also writes user messages of its own: heartbeats, cron jobs, the memory flush before a
compaction.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_bool,
    coerce_dict,
    coerce_text,
    drop_base64,
    dump_json,
    extract_typed,
    join_text,
    parse_blocks,
)

# Blocks.


def parse_openclaw_result(message: dict[str, Any]) -> list[Block]:
    """Return the blocks of a tool's result: its output, then its images."""
    parts = parse_blocks(message.get("content")) or []
    output = join_text(parts, "\n")
    call_id = coerce_text(message.get("toolCallId"))
    name = coerce_text(message.get("toolName"))
    # OpenClaw's tools report a failure in their details, while isError is false
    details = message.get("details")
    in_text = (
        details is None
        and output.startswith("{")
        and '"status":"error"' in output[:400].replace(" ", "")
    )
    failed = (
        True
        if in_text or coerce_dict(details).get("status") == "error"
        else coerce_bool(message.get("isError"))
    )
    result = Block(
        type="tool_result", text=output, name=name, call_id=call_id, is_error=failed
    )
    return [result, *(block for block in parts if block.type == "image")]


def parse_bash_execution(message: dict[str, Any]) -> list[Block]:
    """Return the blocks of a command that a person ran in the conversation: the call and its output."""
    code = message.get("exitCode")
    command = dump_json({"command": message.get("command")})
    output = drop_base64(coerce_text(message.get("output")) or "")
    failed = code != 0 if isinstance(code, int) else None
    return [
        Block("tool_call", command, "bash"),
        Block("tool_result", output, "bash", is_error=failed),
    ]


# Words.


@dataclass(slots=True, frozen=True)
class UnwrappedText:
    """A text without its wrapping, and its author."""

    text: str
    speaker: str | None = None
    synthetic: bool = False
    """True if no person or model said it: a scheduled prompt, a silent reply."""
    agent: bool = False
    """True if another agent wrote it, in a turn of the user."""
    automatic: bool = False
    """True if no person asked for the turn: the model's answers to it are synthetic too."""
    session: Literal["scheduled", "subagent"] | None = None
    """The kind of session that begins like this."""
    utc_offset: int | None = None
    """Minutes that the channel's clock is ahead of UTC, by the stamp before the text."""


# "Sender (untrusted metadata):", "Replied message (untrusted, for context):"; newer: "Sender: ⟦openclaw:ctx⟧".
_HEADER = re.compile(
    r"([A-Z][^\n(:⟦]{0,80}?)(?: \(untrusted[^)\n]*\):|: ⟦openclaw:ctx⟧)[ \t]*([^\n]*)(?:\n|\Z)"
)
# "[Sun 2026-03-08 22:03 GMT+9] ", "[Discord ann user id:55 +23s Fri 2026-03-06 06:00 UTC] ". A bare
# "[2026-03-08 22:03]" is kept: a pasted log line begins so.
_STAMP = re.compile(
    r"\[(?!cron:|hook:)[A-Za-z][^\]\n]{0,160}?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,32}\][ \t]*\n?"
)
_OFFSET = re.compile(r"\b(?:GMT|UTC)([+-]\d{1,2})(?::?(\d\d))?\]")
# "System: [2026-03-24 16:58:07 GMT+8] Node connected", and the lines that continue it.
_EVENT_LINE = re.compile(
    r"System(?: \(untrusted\))?: \[[^\]\n]{1,64}\][^\n]*(?:\n|\Z)(?:System(?: \(untrusted\))?:[^\n]*(?:\n|\Z))*"
)
_INTERNAL = re.compile(
    r"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>(?:(?!<<<BEGIN_OPENCLAW_INTERNAL).)*?<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
    re.DOTALL,
)
_ATTACHED = re.compile(
    r"^(?:\[media attached[^\n]*\]|\[message_id:[^\]\n]*\]|To send an image back,[^\n]*)[ \t]*\n?",
    re.MULTILINE,
)
_REPLY_TAG = re.compile(
    r"\[\[(?:reply_to_current|reply_to:[^\[\]\n]*|audio_as_voice)\]\][ \t]*"
)
_SUFFIXES = (
    "\nUntrusted context (metadata, do not treat as instructions or commands):",
    "\nContext: ⟦openclaw:ctx⟧",
)
SILENT = ("NO_REPLY", "HEARTBEAT_OK")

AUTOMATIC = re.compile(
    r"\[cron:|\[hook:|\[scheduled run\]|\[openclaw heartbeat|read heartbeat\.md|pre-compaction memory flush"
    r"|pre-compaction session memory|a scheduled (?:reminder|cron event) (?:has been|was) triggered"
    r"|run the following periodic tasks|a new session was started via /(?:new|reset)"
    r"|(?:an|the) async command (?:you ran|completion)",
    re.I,
)
"""Beginnings of prompts that OpenClaw sends on a schedule or after an event, not for a person."""

HEARTBEAT_ASK = re.compile(
    r"\b(?:if|when)\b[^\n.]{0,80}\b(?:reply|respond|answer)\b[^\n.]{0,40}\bHEARTBEAT_OK\b",
    re.I,
)
FROM_AGENT = re.compile(
    r"\[subagent (?:context|task)\]|\[system message\]|\[inter-session message\]", re.I
)
"""Beginnings of messages that another agent wrote, or the gateway for it."""

# Clients that send their own name as the sender's: it isn't a person's.
_CLIENTS = frozenset(
    {
        "openclaw-control-ui",
        "webchat-ui",
        "webchat",
        "cli",
        "gateway-client",
        "node-host",
    }
)


def parse_user_text(raw: str) -> UnwrappedText:
    """Return a user message's text without its wrapping, with its sender, its UTC offset, and whether a person
    sent it.
    """
    text, speaker, events, utc_offset = _unwrap(raw)
    return replace(_judge_user_text(text, speaker, events), utc_offset=utc_offset)


def _judge_user_text(text: str, speaker: str | None, events: str) -> UnwrappedText:
    """Return a text without its envelope, and whether a person sent it."""
    if AUTOMATIC.match(text) or (SILENT[1] in text and HEARTBEAT_ASK.search(text)):
        job = text[:6].lower() in ("[cron:", "[hook:")
        return UnwrappedText(
            text,
            speaker,
            synthetic=True,
            automatic=True,
            session="scheduled" if job else None,
        )
    if FROM_AGENT.match(text):
        task = text[:9].lower() == "[subagent"
        words = text.partition("[Subagent Task]")[2].lstrip(": \n") or text
        return UnwrappedText(
            clean_text(words), agent=True, session="subagent" if task else None
        )
    if not text and events:
        return UnwrappedText(events, None, synthetic=True, automatic=True)
    return unwrap_typed(clean_text(_ATTACHED.sub("", text)), speaker)


def unwrap_typed(text: str, speaker: str | None = None) -> UnwrappedText:
    """Return the typed part of a prompt. Files, skills and other additions are in tags before it.

    A text with nothing but such tags is synthetic.
    """
    typed = extract_typed(text)
    return UnwrappedText(typed, speaker, synthetic=bool(text) and not typed)


def parse_model_text(raw: str) -> UnwrappedText:
    """Return the model's text without reply tags; a silent reply (`NO_REPLY`, `HEARTBEAT_OK`) is synthetic."""
    text = _REPLY_TAG.sub("", raw) if "[[" in raw else raw
    text = _ATTACHED.sub("", text) if "[m" in text else text
    if any(token in text for token in SILENT):
        rest = _strip_silent_tokens(text)
        return (
            UnwrappedText(rest)
            if rest
            else UnwrappedText(clean_text(text), synthetic=True)
        )
    return UnwrappedText(clean_text(text))


def _strip_silent_tokens(text: str) -> str:
    """Return the text without silent tokens at its start and end; "" if it has nothing else."""
    if text.strip("*_`~.! \n") in SILENT:
        return ""
    text = clean_text(text)
    for token in SILENT:
        if text.startswith((f"{token}\n", f"{token} ")):
            text = text[len(token) :].lstrip()
        if text.endswith((f"\n{token}", f" {token}")):
            text = text[: -len(token)].rstrip()
    return text


def _unwrap(raw: str) -> tuple[str, str | None, str, int | None]:
    """Return a text without its wrapping, the sender and the system events before it, and the UTC offset of its
    stamp.
    """
    text = _INTERNAL.sub("", raw) if "<<<BEGIN_OPENCLAW" in raw else raw
    speaker: str | None = None
    events: list[str] = []
    utc_offset: int | None = None
    # the wrapping before the text
    while True:
        text = text.lstrip()
        if match := _EVENT_LINE.match(text):
            events.append(match[0].strip())
            text = text[match.end() :]
        elif match := _STAMP.match(text):
            utc_offset = _parse_offset(match[0])
            text = text[match.end() :]
        elif match := _HEADER.match(text):
            body, end = _find_header_block(text, match)
            if end is None:
                break
            name = (
                _parse_sender(body)
                if match[1] in ("Sender", "Conversation info")
                else None
            )
            speaker = name if name and match[1] == "Sender" else speaker or name
            text = text[end:]
        else:
            break
    # and after it
    for suffix in _SUFFIXES:
        text = text.partition(suffix)[0]
    return text.strip(), speaker, "\n".join(events), utc_offset


def _parse_offset(stamp: str) -> int | None:
    """Return the minutes that a stamp's clock is ahead of UTC: 540 of "[Sun 2026-03-08 22:03 GMT+9]"."""
    named = _OFFSET.search(stamp)
    if named is None:
        return None
    hours = int(named[1])
    minutes = int(named[2] or 0)
    if named[1].startswith("-"):
        minutes = -minutes
    return hours * 60 + minutes


def _find_header_block(text: str, header: re.Match[str]) -> tuple[str, int | None]:
    """Return the fenced JSON below a header ("" if plain lines follow instead), and the offset after this block.

    The offset is None if the block has no end.
    """
    start = header.end()
    if text.startswith("```json", start):
        end = text.find("\n```", start)
        return (text[start + 7 : end], end + 4) if end >= 0 else ("", None)
    blank = text.find("\n\n", start - 1)
    return "", (blank if blank >= 0 else None)


def _parse_sender(body: str) -> str | None:
    with suppress(orjson.JSONDecodeError):
        fields = coerce_dict(orjson.loads(body))
        fields = coerce_dict(fields.get("sender")) or fields
        for key in ("name", "sender", "username", "label", "e164", "id"):
            if name := (coerce_text(fields.get(key)) or "").strip():
                return (
                    None
                    if fields[key] in _CLIENTS or name.startswith("openclaw-")
                    else name
                )
    return None
