"""Learnings of another memory: the document that `slowwave export OUT --learnings` writes, as a source like any other.

A claim is a message whose text is its quote and whose blocks keep what was claimed (`LEARNING` names them); one
document is one session of source `shared` for each workspace. `slowwave.tasks.observe.shared` makes claims of them.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slowwave.schemas.vocabulary import LEARNINGS, SHARED
from slowwave.tasks.ingest.parsing.lines import format_excerpt, has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    drop_control,
    parse_role,
)

FOLDER = "shared"
"""Of a space: the documents that were imported, `NAME.json`."""
WITHDRAWN = "withdrawn"
"""What an earlier document of the same name had and this one has not: session and id."""
LEARNING = "learning."
"""Before a field's name in a block's: one block a field, so that redaction of one breaks no other."""
PACKS = frozenset(("coding", "personal"))
CATEGORY = re.compile(r"[^\W\d_]+(?:[_-][^\W\d_]+){0,3}")
LONGEST = {"category": 40, "summary": 1_000, "detail": 4_000, "quote": 20_000, "speaker": 200}
"""Characters of a field; a claim that has more is none."""


def sniff(head: Head) -> bool:
    """Return whether it is such a document."""
    return has_leading_keys(head, LEARNINGS, "claims")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the claims; `line` is a claim's number, from 1."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        document = item[1]
        if document.get(LEARNINGS) != 1:
            yield Rejected(0, f"learnings of version {document.get(LEARNINGS)!r:.20}: this slowwave reads version 1")
            continue
        name = coerce_text(document.get("name")) or path.name.split(".")[0]
        yield from read_claims(name, [coerce_dict(one) for one in coerce_list(document.get("claims"))])
        for gone in map(coerce_dict, coerce_list(document.get(WITHDRAWN))):
            session, native = coerce_text(gone.get("session")), coerce_text(gone.get("id"))
            if session and native and session.split("/")[0] == name:
                yield Inactive(session, native, "no longer shared")


def read_claims(name: str, claims: list[dict[str, object]]) -> Iterator[Record]:
    """Yield the records of what a memory of that name claims."""
    places = dict.fromkeys(coerce_text(one.get("workspace")) for one in claims)
    for place in places:
        session = name if len(places) == 1 else f"{name}/{place or ''}"
        yield Session(session, workspace=place, title=f"Learnings of {name}")
        for number, one in enumerate(claims, 1):
            if coerce_text(one.get("workspace")) == place:
                yield _parse_claim(session, name, number, one)


def _parse_claim(session: str, name: str, number: int, one: dict[str, object]) -> Message | Rejected:
    needed = {field: _get_text(one, field) for field in ("id", "summary", "quote", "pack")}
    confidence, category = one.get("confidence"), _get_text(one, "category")
    missing = next((field for field, value in needed.items() if value is None or not value.strip()), None)
    if missing is None and (needed["pack"] not in PACKS or not CATEGORY.fullmatch(category or "none")):
        missing = "pack" if needed["pack"] not in PACKS else "category"
    missing = missing or next((field for field in LONGEST if len(_get_text(one, field) or "") > LONGEST[field]), None)
    at = coerce_time(one.get("observed_at"))
    if at and at > datetime.now(UTC) + timedelta(days=1):  # it would be the latest of all for ever
        missing = missing or "observed_at"
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not math.isfinite(confidence):
        missing = missing or "confidence"
    if missing:
        return Rejected(number, f"claim {number}: no usable {missing}", format_excerpt(one))
    files = "\n".join(file for file in coerce_list(one.get("files")) if isinstance(file, str))
    fields = {
        "summary": needed["summary"],
        "category": category,
        "pack": needed["pack"],
        "detail": _get_text(one, "detail"),
        "files": files or None,
        "confidence": str(confidence),
        "from": name,
    }
    cited = coerce_dict(next(iter(coerce_list(one.get("cited"))), None))
    role, origin = parse_role(cited.get("role")) or ("assistant", "model")
    quote = str(needed["quote"])
    return Message(
        session,
        str(needed["id"]),
        role,
        origin,
        [Block("text", quote), *(Block("other", v, name=LEARNING + k) for k, v in fields.items() if v)],
        quote,
        at,
        speaker=_get_text(one, "speaker"),
        line=number,
    )


def _get_text(one: dict[str, object], field: str) -> str | None:
    """Return a field that is text, without control characters: it goes to terminals and into files."""
    return drop_control(coerce_text(one.get(field)) or "") or None


READER = Reader("learnings", 1, sniff, read, tool=SHARED)
