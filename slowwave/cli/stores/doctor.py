"""`slowwave doctor memory PATH`: what is wrong with the notes one keeps, held against themselves and the store."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import OUT, JsonOption, SpaceOption, StoreOption, load_settings, report_errors
from slowwave.schemas.errors import NoRelease, StoreMissing, UsageError

if TYPE_CHECKING:
    from slowwave.doctor.check import Finding
    from slowwave.doctor.entries import Entry
    from slowwave.schemas.settings import Settings

NOTHING = "No store to hold it against: only what the memory says of itself is checked."
WORDS = {
    "duplicate": "said twice",
    "contradiction": "contradicts another entry",
    "changed": "changed by a later session",
    "unsupported": "no transcript supports it",
}


def memory(
    path: Annotated[
        Path, typer.Argument(help="MEMORY.md, CLAUDE.md, a folder of notes, mem0's JSON, claude-mem's db.")
    ],
    patch: Annotated[
        Path | None, typer.Option(help="Write a proposal as a unified diff to this new file.", show_default=False)
    ] = None,
    workspace: Annotated[
        str | None, typer.Option(help="Whose claims; none: the workspace that the path lies in.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Show what a memory says twice, what contradicts itself, what has changed since, what nobody said."""
    with report_errors():
        from slowwave.doctor.entries import read_entries
        from slowwave.doctor.patch import build_patch

        path = path.expanduser().absolute()
        if patch and patch.exists():
            raise UsageError(f"{patch} is there already: name a file that is new")
        entries = read_entries(path)
        findings, notes = _check(entries, load_settings(store, space), path, workspace)
        root = path if path.is_dir() else path.parent
        if patch:
            text = build_patch(findings, root)
            patch.write_bytes(text.encode("utf-8", "surrogateescape"))
            apply = f"patch -p1 -d {shlex.quote(str(root))} < {shlex.quote(str(patch))}"
            notes.append(f"Proposed in {patch}: `{apply}` applies it" if text else "No proposal.")
        counts = {kind: sum(one.kind == kind for one in findings) for kind in WORDS}
        if as_json:
            told = [_describe(one, root) for one in findings]
            OUT.print_json(data={"entries": len(entries), "counts": counts, "findings": told, "notes": notes})
            return
        for one in findings:
            _print(one, root)
        summary = ", ".join(f"{count} {WORDS[kind]}" for kind, count in counts.items() if count) or "nothing found"
        OUT.print(f"{len(entries)} entries: {summary}", soft_wrap=True)
        for note in notes:
            OUT.print(note, soft_wrap=True)


def _check(
    entries: "list[Entry]", settings: "Settings", path: Path, workspace: str | None
) -> "tuple[list[Finding], list[str]]":
    import pyarrow.compute as pc

    from slowwave.doctor.check import Finding, build_rows, check_entries
    from slowwave.memory import Memory
    from slowwave.schemas.tables import OBSERVATIONS
    from slowwave.store.snapshot import Snapshot
    from slowwave.tasks.vectors import get_encoder

    encoder = get_encoder(settings)
    try:
        known = Snapshot(settings.store, settings.space).read(OBSERVATIONS)
    except (StoreMissing, NoRelease):
        rows = build_rows(entries, None, encoder)
        return check_entries(entries, rows, rows.slice(0, 0)), [NOTHING]
    place = workspace or _find_workspace(path, known["workspace"].to_pylist())
    rows = build_rows(entries, place, encoder)
    theirs = known.filter(pc.equal(known["workspace"], place)) if place else known.slice(0, 0)
    lengths = {
        length for table in (rows, theirs) for length in pc.unique(pc.list_value_length(table["vector"])).to_pylist()
    }
    if len(lengths - {None}) > 1:
        raise UsageError(f"the encoder {settings.encoder} is not the one that the store's vectors were made with")
    findings = check_entries(entries, rows, theirs)
    said = {one.entry for one in findings}
    memory = Memory.open(settings.store, settings.space)
    asked = [entry for entry in entries if entry not in said and any(map(str.isalnum, entry.text))]
    for entry, hits in zip(asked, memory.recall_many([e.text[:2_000] for e in asked], 1) if asked else [], strict=True):
        if not hits and hits.relevance < settings.recall.floor:
            findings.append(Finding("unsupported", entry, f"the nearest memory reaches {hits.relevance:.2f}"))
    findings.sort(key=lambda one: (str(one.entry.path), one.entry.line))
    notes = [] if place else ["No workspace of the store holds this path: name one by --workspace to see what changed."]
    return findings, notes


def _find_workspace(path: Path, known: list[str | None]) -> str | None:
    """Return the innermost workspace of the store that the path lies in."""
    there = {name for name in known if name and path.is_relative_to(name)}
    return max(there, key=len, default=None)


def _place(entry: "Entry", root: Path) -> str:
    name = entry.path.relative_to(root) if entry.path.is_relative_to(root) else entry.path
    return f"{name}:{entry.line}"


def _describe(one: "Finding", root: Path) -> dict[str, Any]:
    claim = one.claim
    return {
        "kind": one.kind,
        "place": _place(one.entry, root),
        "text": one.entry.text,
        "why": one.why,
        "other": {"place": _place(one.other, root), "text": one.other.text} if one.other else None,
        "claim": {
            "id": claim["observation_id"],
            "summary": claim["summary"],
            "observed_at": claim["observed_at"].isoformat() if claim["observed_at"] else None,
            "session": claim["session_id"],
        }
        if claim
        else None,
    }


def _print(one: "Finding", root: Path) -> None:
    OUT.print(f"{_place(one.entry, root)}  {WORDS[one.kind]} ({one.why})", soft_wrap=True)
    OUT.print(f"    {one.entry.text}", soft_wrap=True)
    if one.other:
        order = "" if one.kind == "duplicate" or (one.entry.dated and one.other.dated) else "  which holds is not dated"
        OUT.print(f"    {_place(one.other, root)}: {one.other.text}{order}", soft_wrap=True)
    if one.claim:
        day = f"{one.claim['observed_at']:%Y-%m-%d}" if one.claim["observed_at"] else "undated"
        OUT.print(f"    {day}: {one.claim['summary']}  [{one.claim['observation_id'][:8]}]", soft_wrap=True)
