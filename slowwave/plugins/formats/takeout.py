"""Google Takeout's "My Activity" of Gemini, as JSON: one array of records, the newest first.

A record has a prompt in `title`, behind the name of the activity, and the answer as HTML in `safeHtmlItem`. Nothing
says which records are one conversation: those of a day (UTC) are a session. Written from descriptions of real exports
and from others' readers of them; no export was at hand. The names of activities are translated for other languages:
there the title stays whole.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

from slowwave.plugins.formats.chats import Fields, get_objects, get_text
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.lines import (
    format_excerpt,
    has_keys_in_head,
    iter_documents,
)
from slowwave.tasks.ingest.parsing.records import (
    HUMAN,
    MODEL,
    Block,
    Head,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.redacted import encode_redacted
from slowwave.tasks.ingest.parsing.values import coerce_list, coerce_time

NAME = "gemini-takeout"
PROMPTS = ("Prompted", "Branched", "Answered", "Asked", "Said")
"""Activities that are a prompt, as the English export names them."""
OTHERS = ("Created", "Used", "Added", "Gave", "Selected", "Shared", "Deleted")
"""Activities in which nobody says anything."""
OF_GEMINI = re.compile(r"Gemini|Bard")
FIRST_HEADER = re.compile(rb'^\W*"header"\s*:\s*"[^"]*(?:Gemini|Bard)')
"""At the start of the file. Other products' activities have the same form."""
BLOCKS = re.compile(r"p|br|div|li|tr|pre|table|[uo]l|h[1-6]|blockquote")


def sniff(head: Head) -> bool:
    """Return True if a file is an array of Gemini's activities."""
    known = has_keys_in_head(head, "header", "title", "time", "products")
    return known and bool(FIRST_HEADER.search(head.data))


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield a session a day, its oldest message first; memory is one day."""
    for _, items in groupby(iter_documents(path, limits), _get_day):
        yield from read_each(list(items)[::-1], _read_record)


def _get_day(item: tuple[int, Fields] | Rejected) -> str:
    """Return the day of a record; empty if it has none."""
    ts = None if isinstance(item, Rejected) else coerce_time(item[1].get("time"))
    return f"{ts:%Y-%m-%d}" if ts else ""


def _read_record(number: int, fields: Fields) -> Iterator[Record]:
    """Yield prompt and answer of one activity."""
    title = get_text(fields, "title") or ""
    verb, _, rest = title.partition(" ")
    answer = _read_answer(fields)
    names = [fields.get("header"), *coerce_list(fields.get("products"))]
    if not any(OF_GEMINI.search(str(name)) for name in names):
        yield Skipped("activity of another product", number)
        return
    if verb not in PROMPTS and not answer:
        yield (
            Skipped(f"activity: {verb}", number)
            if verb in OTHERS
            else Rejected(
                number, "an activity of no known name", format_excerpt(fields)
            )
        )
        return
    prompt = rest if verb in PROMPTS else title
    session = f"gemini-{_get_day((number, fields)) or 'undated'}"
    time = str(fields.get("time"))
    native = compute_content_id(time, encode_redacted(prompt))
    former = compute_content_id(time, prompt)  # before it hashed what is stored
    yield Session(session)
    ts = coerce_time(fields.get("time"))
    for end, who, text in (("", HUMAN, prompt.strip()), ("/answer", MODEL, answer)):
        if text:
            role, origin = who
            message = Message(
                session=session,
                native_id=f"{native}{end}",
                role=role,
                origin=origin,
                blocks=[Block("text", text)],
                text=text,
                ts=ts,
                line=number,
            )
            yield _add_former(message, former)


def _read_answer(fields: Fields) -> str:
    """Return the text of an activity's answer."""
    items = get_objects(fields, "safeHtmlItem")
    texts = [read_html(get_text(item, "html") or "") for item in items]
    return "\n\n".join(texts).strip()


def _add_former(message: Message, former: str) -> Message:
    """Return a message with the identity that it had before ids were made of redacted words, if that differs."""
    native, slash, end = message.native_id.partition("/")
    if native != former:
        message.former = f"{message.session}/{former}{slash}{end}"
    return message


class _Words(HTMLParser):
    """Collects the text of HTML, a line for each block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_line(tag)

    def handle_endtag(self, tag: str) -> None:
        self._end_line(tag)

    def _end_line(self, tag: str) -> None:
        if BLOCKS.fullmatch(tag):
            self.pieces.append("\n")


def read_html(text: str) -> str:
    """Return the words of HTML."""
    words = _Words()
    words.feed(text)
    words.close()
    return re.sub(r"\n{2,}", "\n", "".join(words.pieces)).strip()


READER = Reader(NAME, sniff, read, version=2)
