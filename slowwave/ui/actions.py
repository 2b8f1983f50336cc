"""The actions of the pages. Each is an action of a command, and says what it did and how to undo it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from slowwave.recall.views.browse import name_sessions
from slowwave.recall.views.show import rate_memory, show
from slowwave.schemas.errors import SlowwaveError, UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.store.place import check_writable
from slowwave.text.cells import LISTED_CHARS, shorten_text
from slowwave.ui.page import Data, Explorer, Page

if TYPE_CHECKING:  # a night's packages: the pages are there without them
    from slowwave.flows.parts.report import RunReport
    from slowwave.tasks.forget.select import Wanted

Id = Annotated[
    str,
    "Id of a claim, session, merge, change or note; its first characters are enough.",
]
Undo = tuple[str, str, dict[str, str]]
"""The button's text, the action, and its fields."""
Why = Annotated[str, "Your reason, which is kept."]


def exclude(at: Explorer, id: Id, why: Why) -> Data:
    """Exclude a session, claim or note, or undo a merge or change; dependent rows are recomputed."""
    from slowwave.flows.exclude import run_exclude

    undo = ("Include it again", "include", {"id": id})
    did = f"Excluded: {_name_row(at, id)}"
    report = run_exclude([id], why, at.settings)
    return _keep(at=at, did=did, report=report, undo=undo)


def include(at: Explorer, id: Id) -> Data:
    """Undo an exclusion, or confirm an agent's note."""
    from slowwave.flows.exclude import run_include

    undo = ("Exclude it", "exclude", {"id": id, "why": "left out again"})
    report = run_include([id], at.settings)
    at.close()
    did = f"Included: {_name_row(at, id)}"
    return _keep(at=at, did=did, report=report, undo=undo)


def correct(
    at: Explorer,
    id: Annotated[str, "The wrong claim's id."],
    text: Annotated[str, "What is right, in your words."],
) -> Data:
    """Say what is right instead of a claim: a note, which replaces the claim in the next night."""
    note = at.memory.correct(id, text)
    undo = (
        "Take it back",
        "exclude",
        {"id": note, "why": "the correction was taken back"},
    )
    line = "Recall shows it now. The next night replaces the claim."
    return _keep(at=at, did=f"Corrected: {text}", report=None, undo=undo, lines=[line])


def rate(
    at: Explorer,
    id: Id,
    verdict: Annotated[Literal["good", "bad"], "good or bad."],
    why: Why = "",
) -> Data:
    """Rate a memory as good or bad. The rating is logged and does not change answers; the last one counts."""
    check_writable(at.settings)
    rate_memory(
        view=at.view, row_id=id, verdict=verdict, why=why, redact=at.settings.redact
    )
    other = "bad" if verdict == "good" else "good"
    undo = (f"Rate it {other}", "rate", {"id": id, "verdict": other})
    return _keep(
        at=at,
        did=f"Rated {verdict}: {_name_row(at, id)}",
        report=None,
        undo=undo,
    )


def preview_forget(
    at: Explorer,
    message: Annotated[str, "A message, by its id."] = "",
    session: Annotated[str, "A session, by its id."] = "",
    match: Annotated[str, "Text that the messages to forget contain."] = "",
    speaker: Annotated[str, "What this person said."] = "",
    workspace: Annotated[str, "What was said in this project."] = "",
    note: Annotated[str, "A note, by its id."] = "",
    files: Annotated[
        str,
        "Anything: where no table has the text, every file is searched for it; that may take long.",
    ] = "",
) -> Data:
    """Return the messages that a forgetting would erase, without erasing them; conditions combine with AND."""
    conditions = {
        "message": message,
        "session": session,
        "match": match,
        "speaker": speaker,
        "workspace": workspace,
    }
    conditions = {
        name: value for name, value in {**conditions, "note": note}.items() if value
    }
    if not conditions:
        return {"asked": conditions, "preview": None, "seen": ""}
    from slowwave.flows.forget import preview_forgetting

    preview = asdict(
        preview_forgetting(
            _build_wanted(conditions), at.settings, search_files=bool(files)
        )
    )
    seen = compute_content_id("preview", at.token, repr(conditions), repr(preview))
    at.previews[seen] = conditions
    return {"asked": conditions, "preview": preview, "seen": seen}


def forget(
    at: Explorer,
    seen: Annotated[str, "`seen` of a preview: what goes is what it showed."],
) -> Data:
    """Erase the previewed messages and all rows derived from them, and write a certificate. It can't be undone."""
    from slowwave.flows.forget import run_forget
    from slowwave.tasks.forget.proof import describe_certificate, load_certificate

    conditions = at.previews.pop(seen, {})
    if not conditions or (shown := preview_forget(at, **conditions))["seen"] != seen:
        raise UsageError(
            "the selection has changed since the preview: look at the preview again"
        )
    report, paths = run_forget(_build_wanted(conditions), at.settings)
    at.previews.clear()
    lines = [
        line
        for path in paths
        for line in describe_certificate(path, load_certificate(path))
    ]
    lines += [
        f"Stays on disk, and is not read again: {path}"
        for path in shown["preview"]["transcripts"]
    ]
    return _keep(at=at, did="Forgotten for good", report=report, undo=None, lines=lines)


def list_outcomes(at: Explorer) -> Data:
    """Return the actions since the server started, newest first, each with how to undo it."""
    return {"outcomes": at.outcomes}


def _name_row(at: Explorer, row_id: str) -> str:
    """Return the words of a row in quotes, of a merge or change those of its claims; its id if it has no words."""
    try:
        node = show(at.view, row_id, 1).node
    except SlowwaveError:
        return row_id
    named = node.below if node.kind == "merge" else (node,)
    words = [one.text for one in named]
    if node.kind == "session":
        said = "".join(one.text for one in node.below[:1])
        words = [name_sessions(at.view, [node.id]).get(node.id) or said]
    lines = [" ".join(text.split()).rstrip(".") for text in words]
    shown = [f"“{shorten_text(line, LISTED_CHARS)}”" for line in lines if line]
    return " and ".join(shown) or row_id


def _build_wanted(conditions: dict[str, str]) -> "Wanted":
    from slowwave.tasks.forget.select import Wanted

    given = {name: (value,) for name, value in conditions.items()}
    return Wanted(
        sessions=given.get("session", ()),
        messages=given.get("message", ()),
        matches=given.get("match", ()),
        speakers=given.get("speaker", ()),
        workspaces=given.get("workspace", ()),
        notes=given.get("note", ()),
    )


def _keep(
    at: Explorer,
    did: str,
    report: "RunReport | None",
    undo: Undo | None,
    lines: Iterable[str] = (),
) -> Data:
    """Add an action to the list of actions, and return it; the next page reads the new release."""
    shown = [
        *lines,
        *(report.collect_notes() if report else ()),
        *([report.format_verdict()] if report else ()),
    ]
    how = dict(zip(("label", "action", "fields"), undo, strict=True)) if undo else None
    outcome = {"at": datetime.now(UTC), "did": did, "lines": shown, "undo": how}
    at.outcomes.insert(0, outcome)
    at.close()
    return outcome


ACTIONS: dict[str, Callable[..., Data]] = {
    "exclude": exclude,
    "include": include,
    "correct": correct,
    "rate": rate,
    "forget": forget,
}
PAGES = (
    Page("/forget", preview_forget, "forget.html"),
    Page("/did", list_outcomes, "did.html"),
)
