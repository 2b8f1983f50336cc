"""Commands on what the memory holds: show, and the ledgers of merges and of junk."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from slowwave.cli.common import (
    OUT,
    JsonOption,
    ReleaseOption,
    SpaceOption,
    StoreOption,
    load_settings,
    open_store,
    report_errors,
)
from slowwave.schemas.vocabulary import LedgerKind, Status

if TYPE_CHECKING:
    from slowwave.recall.views.show import Node
    from slowwave.store.store import Store


def show(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="An id, its first characters, or SESSION/MESSAGE.")],
    depth: Annotated[int | None, typer.Option(help="Levels down; none: to the messages.", show_default=False)] = None,
    as_json: JsonOption = False,
    release: ReleaseOption = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Show a memory by its id: what it stands on, and what holds it.

    An observation, summary, topic, session or message.
    """
    with report_errors():
        from slowwave.recall.views.show import show as find
        from slowwave.store.snapshot import Snapshot

        settings = load_settings(store, space)
        shown = find(Snapshot(settings.store, settings.space, release), wanted, depth)
        if as_json:
            OUT.print_json(data=shown.as_dict(), default=str)
            return
        for line in _format_node_lines(shown.node, 0, whole=True):
            OUT.print(line, highlight=False, soft_wrap=True, markup=False)
        if shown.above:
            OUT.print("held by", highlight=False)
        for node in shown.above:
            OUT.print(_format_node(node, 1), highlight=False, soft_wrap=True, markup=False)
        if shown.related:
            OUT.print("related", highlight=False)
        for node in shown.related:
            how = f"{node.facts['relation'].replace('_', ' ')}: "
            OUT.print(f"  {how}{_format_node(node, 0)}", highlight=False, soft_wrap=True, markup=False)


def _format_node_lines(node: "Node", level: int, *, whole: bool = False) -> list[str]:
    lines = [_format_node(node, level, whole=whole)]
    if whole:
        lines += [f"  {name}: {value}" for name, value in node.facts.items()]
    for below in node.below:
        lines += _format_node_lines(below, level + 1)
    return lines


def _format_node(node: "Node", level: int, *, whole: bool = False) -> str:
    text = " ".join(node.text.split())
    if not whole and len(text) > 160:
        text = text[:160].rsplit(" ", 1)[0] + " …"
    status = node.facts.get("status", "active")
    stale = "" if status == Status.ACTIVE else f" ({status})"
    tier = f" tier {node.facts['tier']}" if "tier" in node.facts else ""
    return f"{'  ' * level}{node.kind}{tier} {node.id[:12]}{stale}  {text}"


def merges(
    undone: Annotated[bool, typer.Option("--undone", help="Those that were taken back.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also what was taken back or has lapsed.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """List which claims were merged or retired, and by which rule."""
    with report_errors():
        rows = [
            row
            for row in _collect_merges(open_store(store, space))
            if everything or row["state"] == ("undone" if undone else "in force")
        ]
        if as_json:
            OUT.print_json(data=rows)
            return
        table = Table("merge", "kind", "rule", "state", "this claim", "gave way, or may, to")
        for row in rows:
            table.add_row(row["merge_id"][:12], row["kind"], row["rule"], row["state"], row["loser"], row["winner"])
        OUT.print(table if rows else "No merges.")


def changes(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the claims that a later one changed or may have changed, the surest first, and how many to expect wrong.

    Of each is told who decided, the classifier or a language model, and where the model said otherwise.
    """
    with report_errors():
        ledger = [row for row in _collect_merges(open_store(store, space)) if row["state"] == "in force"]
        judged = _note_judgements(ledger)
        rows = [row for row in ledger if row["kind"] in (LedgerKind.SUPERSESSION, LedgerKind.DOUBT)]
        rows.sort(key=lambda row: (row["kind"] == LedgerKind.DOUBT, -row["scores"].get("likely", 1.0), row["merge_id"]))
        if as_json:
            OUT.print_json(data=rows)
            return
        table = Table("merge", "likely", "judged by", "this claim", "is changed, or may be, by")
        for row in rows:
            likely = f"{row['scores'].get('likely', 1.0):.0%}{' ?' if row['kind'] == LedgerKind.DOUBT else ''}"
            against = ", against the classifier" if row["against_classifier"] else ""
            by = f"model: {row['answer']}{against}" if row["answer"] else "classifier"
            table.add_row(row["merge_id"][:12], likely, by, row["loser"], row["winner"])
        OUT.print(table if rows else "No changes.")
        for kind, what in ((LedgerKind.SUPERSESSION, "superseded"), (LedgerKind.DOUBT, "linked, both standing")):
            mine = [row for row in rows if row["kind"] == kind]
            some = [row["scores"].get("likely", 1.0) for row in mine if not row["answer"]]
            if some:
                OUT.print(f"{len(some)} {what}: {sum(1 - p for p in some):.1f} expected wrong.", highlight=False)
            if len(mine) > len(some):
                OUT.print(f"{len(mine) - len(some)} {what} by a model's word.", highlight=False)
        if judged:
            against = sum(row["against_classifier"] for row in judged)
            OUT.print(f"{len(judged)} pairs judged by a model, {against} against the classifier.", highlight=False)


def _note_judgements(ledger: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the judgements among the ledger's rows; each row gets `answer`, the model's on its pair or None, and
    `against_classifier`, whether something else follows than from the classifier alone.
    """
    from slowwave.tasks.supersede.verdicts import Answer, has_disagreement

    judged = [row for row in ledger if row["kind"] == LedgerKind.JUDGEMENT and row["rule"] != Answer.UNANSWERED]
    by_pair = {frozenset((row["loser_id"], row["winner_id"])): row for row in judged}
    for row in ledger:
        said = by_pair.get(frozenset((row["loser_id"], row["winner_id"])))
        row["answer"] = said["rule"] if said else None
        row["against_classifier"] = said is not None and has_disagreement(said["rule"], said["scores"]["likely"])
    return judged


def _collect_merges(store: "Store") -> list[dict[str, Any]]:
    """Return rows of the ledger with what both claims say, and their `state`.

    One that nobody took back has `lapsed` when its loser no longer points to its winner: that was withdrawn, the loser
    was said again, or another claim has it now. A doubt is in force while both its claims stand, a judgement while both
    are there.
    """
    from slowwave.schemas.tables import MERGES, OBSERVATIONS

    rows = store.read(MERGES).to_pylist()
    ids = [row[name] for row in rows for name in ("loser_id", "winner_id")]
    columns = ["observation_id", "summary", "canonical_id", "superseded_by", "status"]
    claims = {claim["observation_id"]: claim for claim in store.read_ids(OBSERVATIONS, ids, columns).to_pylist()}
    for row in rows:
        loser, winner = claims.get(row["loser_id"], {}), claims.get(row["winner_id"], {})
        row |= {"scores": dict(row["scores"] or []), "loser": loser.get("summary"), "winner": winner.get("summary")}
        stands = row["winner_id"] in (loser.get("canonical_id"), loser.get("superseded_by"))
        if row["kind"] == LedgerKind.DOUBT:
            stands = loser.get("status") == winner.get("status") == Status.ACTIVE
        if row["kind"] == LedgerKind.JUDGEMENT:
            stands = bool(loser and winner)
        row["state"] = "undone" if row["undone"] else "in force" if stands else "lapsed"
    return sorted(rows, key=lambda row: (row["kind"], row["rule"], row["merge_id"]))


def junk(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the boilerplate that is masked before anything is distilled, with counts."""
    with report_errors():
        from slowwave.schemas.tables import BOILERPLATE

        rows = open_store(store, space).read(BOILERPLATE).to_pylist()
        rows.sort(key=lambda row: (-row["count"], row["span_id"]))
        if as_json:
            OUT.print_json(data=rows)
            return
        table = Table("span", "sessions", "masked", "text")
        for row in rows:
            table.add_row(
                row["span_id"], f"{row['sessions']:,}", f"{row['count']:,}", " ".join(row["text"].split())[:120]
            )
        OUT.print(table if rows else "Nothing is masked.")
