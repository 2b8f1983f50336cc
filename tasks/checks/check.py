"""Say of each claim and passage whether what it names stands in the checkout, as rows of CHECKS."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CHECKS
from slowwave.schemas.vocabulary import CheckKind, CheckResult
from slowwave.tasks.checks.branches import Seen
from slowwave.tasks.checks.checkout import Git
from slowwave.tasks.checks.judge import Judged, Verdict, judge_references
from slowwave.tasks.checks.references import Reference, find_references
from slowwave.text.fence import escape_line
from slowwave.text.redact import redact_text

VERSION = 6
SAME_WORK = timedelta(days=1)
"""A thing that goes so soon after it was named went in the work that the text is about."""
QUIET = (CheckKind.SETTING, CheckKind.PORT)
"""Kinds of which a guess that is there says nothing."""


class CheckedTexts(NamedTuple):
    """What a checkout says of texts."""

    rows: pa.Table
    """Of CHECKS."""
    unread: frozenset[str]
    """Ids of the rows of what was not looked up to the end. An earlier row of these still counts."""


class Text(NamedTuple):
    """A claim or a passage that is compared with the code."""

    row_id: str
    message_id: str | None
    """The passage's message; None for a claim."""
    workspace: str
    text: str
    files: tuple[str, ...]
    at: datetime | None
    """When it was said."""


def check_texts(
    git: Git,
    texts: Sequence[Text],
    now: datetime,
    step_key: str,
    exclude: Collection[str] = (),
    earlier: Mapping[str, Seen] | None = None,
) -> CheckedTexts:
    """Return rows of CHECKS: what the texts name that the checkout has, or had.

    Args:
        git: over the checkout.
        texts: claims and passages about it.
        now: the run's clock.
        step_key: the step's.
        exclude: globs of files that programs write.
        earlier: branches that earlier nights saw.
    """
    named = [find_references(text.text, text.files) for text in texts]
    said: dict[Reference, float] = {}
    for text, references in zip(texts, named, strict=True):
        at = text.at.timestamp() if text.at else 0.0
        for one in references:
            said[one] = min(said.get(one, at), at)
    judged = (
        judge_references(git=git, said=said, exclude=exclude, earlier=earlier)
        if said
        else Judged({}, frozenset())
    )
    stamp = {"checked_at": now, "commit": git.checkout.head, "step_key": step_key}
    rows = []
    unread = set[str]()
    for text, references in zip(texts, named, strict=True):
        for one, verdict in choose_verdicts(text, references, judged.verdicts).items():
            rows.append(_build_row(text, one, verdict) | stamp)
        holding = find_holding(references, judged.verdicts)
        unread.update(
            compute_check_id(text, one)
            for one in judged.unread.intersection(references)
            if drop_value(one) not in holding
        )
    rows.sort(key=lambda row: str(row["check_id"]))
    table = pa.Table.from_pylist(rows, schema=CHECKS.schema)
    return CheckedTexts(table, frozenset(unread))


def drop_value(reference: Reference) -> tuple[CheckKind, str, bool]:
    """Return a reference without its value: one for all values of a setting, or versions of a package."""
    return reference.kind, reference.name, bool(reference.value)


def find_holding(
    references: Sequence[Reference],
    verdicts: Mapping[Reference, Verdict],
) -> set[tuple[CheckKind, str, bool]]:
    """Return the found references of a text, without their values."""
    return {
        drop_value(one)
        for one in references
        if one in verdicts and verdicts[one].result is CheckResult.FOUND
    }


def compute_check_id(
    text: Text,
    reference: Reference,
) -> str:
    """Return the id of a row."""
    one = reference
    return compute_content_id(text.row_id, one.kind, one.name, one.value)


def choose_verdicts(
    text: Text,
    references: Sequence[Reference],
    verdicts: Mapping[Reference, Verdict],
) -> dict[Reference, Verdict]:
    """Return the verdicts that count for a text, by what it names.

    A thing that was gone when the text was written is not what the text relies on. Nor is one whose place was taken by
    what the text names too: it tells of the change. Of several values of one setting, or versions of one package, one
    that holds is enough. What is only perhaps a name says nothing by being there.
    """
    known = {one: verdicts[one] for one in references if one in verdicts}
    holding = find_holding(references, verdicts)
    chosen: dict[Reference, Verdict] = {}
    for one, verdict in known.items():
        if verdict.since is None:
            if not (one.is_guess and one.kind in QUIET):
                chosen[one] = verdict
        elif drop_value(one) not in holding and is_news(text, one, verdict):
            chosen[one] = verdict
    return _drop_repeats(chosen)


def _drop_repeats(chosen: Mapping[Reference, Verdict]) -> dict[Reference, Verdict]:
    """Return verdicts without those that say again what the code lost: a name that is a file's too, and the value of a
    setting that is gone itself.
    """
    lost = [one for one, verdict in chosen.items() if verdict.since is not None]
    names = {one.name for one in lost if not one.value}
    first: dict[tuple[str, str], Reference] = {}
    for one in lost:
        first.setdefault((one.name, one.value), one)
    again = {one for one in lost if first[one.name, one.value] != one}
    for one in lost:
        is_value = one.kind is CheckKind.SETTING and one.value
        if is_value and one.name in names:
            again.add(one)
    return {one: verdict for one, verdict in chosen.items() if one not in again}


def is_news(
    text: Text,
    reference: Reference,
    verdict: Verdict,
) -> bool:
    """Return True if the code changed after a text was said, and the text does not tell of the change."""
    if verdict.since is None:
        return False
    gone_at = read_time(verdict.since.at)
    if text.at is not None and (gone_at is None or gone_at <= text.at + SAME_WORK):
        return False
    return not _tells(text.text, reference, verdict)


def _tells(
    text: str,
    reference: Reference,
    verdict: Verdict,
) -> bool:
    """Return True if a text names what took a thing's place, and the thing did not have it before."""
    before = verdict.text or reference.name
    if reference.kind is CheckKind.BRANCH:
        named = {one.name for one in find_references(text)}
        return verdict.instead in {*named, *text.split()}
    if reference.kind is CheckKind.FILE and verdict.instead:
        return verdict.instead.rpartition("/")[2] in text.replace(verdict.path, "")
    fresh = {word for word in verdict.instead.split() if word not in before.split()}
    words = {one.name for one in find_references(verdict.instead)}
    words -= {one.name for one in find_references(before)}
    named = {one.name for one in find_references(text)}
    return reference.kind is CheckKind.NAME and bool(fresh and words & named)


def read_time(seconds: int) -> datetime | None:
    """Return a commit's time; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _build_row(
    text: Text,
    one: Reference,
    verdict: Verdict,
) -> dict[str, object]:
    """Return a row of CHECKS but for the run's columns."""
    return {
        "check_id": compute_check_id(text, one),
        "row_id": text.row_id,
        "message_id": text.message_id,
        "workspace": text.workspace,
        "kind": one.kind,
        "name": one.name,
        "value": one.value or None,
        "result": verdict.result,
        "path": clean_text(verdict.path),
        "line": verdict.line or None,
        "text": clean_text(verdict.text),
        "since_commit": verdict.since.id if verdict.since else None,
        "since_at": read_time(verdict.since.at) if verdict.since else None,
        "instead": clean_text(verdict.instead),
    }


def clean_text(text: str) -> str | None:
    """Return a text of the checkout's as it is stored: one line, redacted, without what no encoding has."""
    plain = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return redact_text(escape_line(plain)) or None
