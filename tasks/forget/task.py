"""Forgetting in the store: the plan made and written down, rows erased by it in stages, and what is due by age.

Each stage does what the plan says that is not done yet, so a run that is killed is finished by doing all again.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import (
    ACTIONS,
    BOILERPLATE,
    COMPLETIONS,
    FILES,
    FORGOTTEN,
    GISTS,
    LINES,
    MARKS,
    MERGES,
    MESSAGES,
    OBSERVATIONS,
    PASSAGES,
    PROTOTYPE_MEMBERS,
    PROTOTYPES,
    QUARANTINE,
    RELATIONS,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
    Table,
)
from slowwave.schemas.vocabulary import Status
from slowwave.store.probes import read_probes, remove_probe
from slowwave.store.recalls import hash_spans
from slowwave.store.store import Store
from slowwave.store.upkeep import drop_versions_at_once, rewrite_tables
from slowwave.tasks.boilerplate.masks import format_span_id
from slowwave.tasks.forget.canaries import pick_canaries
from slowwave.tasks.forget.erase import (
    blank_event,
    blank_message,
    blank_quarantine,
    blank_report,
    blank_session,
    blank_topic,
    free_claims,
    is_blank,
)
from slowwave.tasks.forget.journals import erase_old_recalls, erase_recalled, erase_said
from slowwave.tasks.forget.ledger import read_forgotten
from slowwave.tasks.forget.plan import (
    Plan,
    Row,
    find_claims,
    find_completions,
    find_quarantined,
    find_summaries,
)
from slowwave.tasks.forget.select import select_due_messages
from slowwave.tasks.job import Job, StepReport, report_step

FOLDER = "forgetting"
"""Plans that are not carried out yet, in the space's folder."""
AT_ONCE = 2_000
SAMPLED = 500
"""Messages whose texts canaries are drawn from, at most."""


def make_plan(
    store: Store, run_id: str, why: Iterable[str], messages: Collection[str], *, match: str | None = None
) -> Plan:
    """Return all that goes with some messages; those that are forgotten already are left out.

    match: words by which also lines in quarantine and probes are meant.
    """
    gone = set(messages) - read_forgotten(store, "message")
    plan = Plan(run_id, datetime.now(UTC).isoformat(), sorted(why), sorted(gone))
    if match:
        held = store.read(QUARANTINE, ["quarantine_id", "reason", "excerpt"]).to_pylist()
        plan.quarantine = [r["quarantine_id"] for r in held if match.casefold() in _join_words(r).casefold()]
        kept = read_probes(store.dir)
        plan.probes = [one.probe_id for one in kept if match.casefold() in f"{one.question} {one.answer}".casefold()]
    if gone:
        _plan_vault(store, plan, gone)
        _plan_derived(store, plan, gone)
    plan.quarantine = sorted(set(plan.quarantine) - read_forgotten(store, "quarantine"))
    plan.counts = _count_rows(store, plan)
    return plan


def plan_due(job: Job, now: datetime) -> Plan:
    """Return what settings say is to be forgotten by now, but for caches and logs that no release pins."""
    store, limits = job.store, job.settings.retention
    plan = make_plan(store, job.run_id, ["retention"], select_due_messages(store, limits, now))
    if limits.quarantine_days:
        old = _find_old_quarantine(store, now - timedelta(days=limits.quarantine_days))
        plan.quarantine = sorted({*plan.quarantine, *old} - read_forgotten(store, "quarantine"))
        plan.counts["quarantine"] = len(plan.quarantine)
    return plan


def forget_due(job: Job, now: datetime | None = None) -> StepReport:
    """Forget what is older than settings let it be. What leaned on it is made anew by the steps that follow."""
    with report_step("forget") as report:
        moment = now or datetime.now(UTC)
        report.counts.update(_drop_due_ledgers(job, moment))
        plan = plan_due(job, moment)
        if not plan.is_empty:
            write_plan(job.store.dir, plan)
            erase(job.store, plan)
            report.rows_in = len(plan.messages)
            report.counts.update({f"{name} forgotten": n for name, n in plan.counts.items() if n})
    return report


def _drop_due_ledgers(job: Job, now: datetime) -> dict[str, int]:
    """Drop lines of the log of recalls, and a model's kept answers, that are too old; releases know of neither."""
    limits, dropped = job.settings.retention, dict[str, int]()
    if limits.recalls_days:
        old_recalls = erase_old_recalls(job.store.dir, now - timedelta(days=limits.recalls_days))
        dropped["lines of recalls.jsonl forgotten"] = old_recalls
    if limits.completions_days:
        old = pc.field("created_at") < now - timedelta(days=limits.completions_days)
        due = job.store.read(COMPLETIONS, ["completion_id"], old)["completion_id"].to_pylist()
        if due:
            job.store.delete_ids(COMPLETIONS, due)
            rewrite_tables(job.store, [COMPLETIONS])
            drop_versions_at_once(job.store, COMPLETIONS)
        dropped["completions forgotten"] = len(due)
    return dropped


def write_plan(space_dir: Path, plan: Plan) -> None:
    """Write a plan down before anything is erased."""
    folder = space_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{plan.run_id}.json"
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as out:
        json.dump(plan.as_dict(), out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


def read_plans(space_dir: Path) -> list[Plan]:
    """Return the plans that are not carried out yet, oldest first: of runs that were killed, and this one's."""
    paths = sorted((space_dir / FOLDER).glob("*.json"))
    return [Plan.from_dict(json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def drop_plan(space_dir: Path, plan: Plan) -> None:
    """Note that a plan is carried out."""
    (space_dir / FOLDER / f"{plan.run_id}.json").unlink(missing_ok=True)


def erase(store: Store, plan: Plan) -> None:
    """Erase what a plan says, in stages, and note that it is erased: what is made anew then is not erased again."""
    for stage in STAGES:
        stage(store, plan)
    plan.erased = True
    write_plan(store.dir, plan)


def write_ledger(store: Store, plan: Plan) -> None:
    """Note what is forgotten, before it is: from here on no night reads it again."""
    rows: list[tuple[str, str, str | None, str | None]] = [("message", *one) for one in plan.hashes]
    rows += [("title", sid, None, None) for sid in plan.sessions]
    rows += [("quarantine", one, None, None) for one in plan.quarantine]
    at = datetime.fromisoformat(plan.at)
    known = set(store.read(FORGOTTEN, ["forgotten_id"])["forgotten_id"].to_pylist())
    table = [
        {
            "forgotten_id": compute_content_id(kind, row_id),
            "kind": kind,
            "row_id": row_id,
            "identity": identity,
            "hash": link,
            "why": ", ".join(plan.why),
            "run_id": plan.run_id,
            "at": at,
        }
        for kind, row_id, identity, link in rows
    ]
    _merge(store, FORGOTTEN, [row for row in table if row["forgotten_id"] not in known])


def blank_vault(store: Store, plan: Plan) -> None:
    """Blank messages, and the titles of their sessions; ids and hashes stay, so that the chain proves the rest."""
    for start in range(0, len(plan.messages), AT_ONCE):
        rows = store.read_ids(MESSAGES, plan.messages[start : start + AT_ONCE]).to_pylist()
        _merge(store, MESSAGES, [blank_message(row) for row in rows if not is_blank(row)])
    held = store.read_ids(SESSIONS, plan.sessions).to_pylist()
    whole = set(plan.whole)
    _merge(store, SESSIONS, [new for row in held if (new := blank_session(row, whole)) != row])


def erase_messages_rows(store: Store, plan: Plan) -> None:
    """Remove passages, gists, actions and what recurs: habits are counted, and the sessions' lines hashed, anew."""
    _delete_by(store, PASSAGES, "message_id", plan.messages)
    _delete_by(store, ACTIONS, "message_id", plan.messages)
    _delete_by(store, GISTS, "message_id", plan.messages)
    _delete_by(store, BOILERPLATE, "span_id", plan.spans)
    _delete_by(store, LINES, "session_id", plan.sessions)


def erase_claims(store: Store, plan: Plan) -> None:
    """Free the claims that leaned on those that go, then remove these, with their merges and relations, and
    prototypes moved by them.
    """
    gone = set(plan.claims)
    lean = [
        *store.read_ids(OBSERVATIONS, plan.claims, by="canonical_id").to_pylist(),
        *store.read_ids(OBSERVATIONS, plan.claims, by="superseded_by").to_pylist(),
        *store.read_ids(OBSERVATIONS, plan.shrunk).to_pylist(),
    ]
    rows = {row["observation_id"]: row for row in lean if row["observation_id"] not in gone}
    members = defaultdict[str, list[Row]](list)
    for row in store.read_ids(OBSERVATIONS, rows, by="canonical_id").to_pylist():
        if row["observation_id"] not in gone:
            members[row["canonical_id"]].append(row)
    freed = free_claims(rows.values(), gone, members)
    _merge(store, OBSERVATIONS, [new for new in freed if new != rows[new["observation_id"]]])
    _delete_by(store, OBSERVATIONS, "observation_id", plan.claims)
    _delete_by(store, MERGES, "loser_id", plan.claims)
    _delete_by(store, MERGES, "winner_id", plan.claims)
    _delete_by(store, RELATIONS, "from_id", plan.claims)
    _delete_by(store, RELATIONS, "to_id", plan.claims)
    if store.read_ids(PROTOTYPE_MEMBERS, plan.claims, ["event_id"], by="observation_id").num_rows:
        # A centroid has moved with each member, and its log says in which order: it is begun anew.
        for table in (PROTOTYPES, PROTOTYPE_MEMBERS):
            store.delete_ids(table, store.read(table, [table.key])[table.key].to_pylist())


def erase_topics(store: Store, plan: Plan) -> None:
    """Take names, centres and samples from topics that lose a claim; one without any goes."""
    columns = ["observation_id", "topic_id", "observed_at"]
    active = pc.field("status") == Status.ACTIVE
    said = pl.DataFrame(store.read_ids(OBSERVATIONS, plan.topics, columns, by="topic_id", where=active))
    left = {
        str(key[0]): mine["observation_id"].to_list()
        for key, mine in said.sort("observed_at", "observation_id").group_by(["topic_id"], maintain_order=True)
    }
    rows = store.read_ids(TOPICS, plan.topics).to_pylist()
    kept = [row for row in rows if row["base"] or row["topic_id"] in left]
    fresh = [blank_topic(row, left.get(row["topic_id"], []), len(row["samples"])) for row in kept]
    _merge(store, TOPICS, [new for new, old in zip(fresh, kept, strict=True) if new != old])
    _delete_by(store, TOPICS, "topic_id", [row["topic_id"] for row in rows if row not in kept])
    topics, claims = set(plan.topics), set(plan.claims)
    held = store.read(TOPIC_HISTORY).to_pylist()
    _merge(store, TOPIC_HISTORY, [new for row in held if (new := blank_event(row, topics, claims)) != row])


def erase_summaries(store: Store, plan: Plan) -> None:
    """Remove summaries, and mark the sessions as due: the next steps go through what is left of them."""
    _delete_by(store, SUMMARIES, "summary_id", plan.summaries)
    _delete_by(store, MARKS, "unit_id", plan.sessions)


def erase_ledgers(store: Store, plan: Plan) -> None:
    """Remove kept answers and excerpts, and the words of earlier runs' reports."""
    _delete_by(store, COMPLETIONS, "completion_id", plan.completions)
    held = store.read_ids(QUARANTINE, plan.quarantine).to_pylist()
    of_files = [blank_quarantine(row) for row in held if row["path"]]
    _merge(store, QUARANTINE, [row for row in of_files if row not in held])
    store.delete_ids(QUARANTINE, [row["quarantine_id"] for row in held if not row["path"]])
    if plan.messages:
        runs = store.read(RUNS).to_pylist()
        _merge(store, RUNS, [new for row in runs if (new := blank_report(row)) != row])


def erase_files(store: Store, plan: Plan) -> None:
    """Take lines out of talks, notes and the log of recalls, and questions out of the probes."""
    erase_said(store.dir, plan.said)
    for one in plan.probes:
        if any(probe.probe_id == one for probe in read_probes(store.dir)):
            remove_probe(store.dir, one)
    ids = {*plan.messages, *plan.claims, *plan.summaries, *plan.whole, *("/".join(one) for one in plan.said)}
    erase_recalled(store.dir, ids, set(plan.recalled))


STAGES: tuple[Callable[[Store, Plan], None], ...] = (
    write_ledger,
    blank_vault,
    erase_messages_rows,
    erase_claims,
    erase_topics,
    erase_summaries,
    erase_ledgers,
    erase_files,
)


def _plan_vault(store: Store, plan: Plan, gone: set[str]) -> None:
    """Note what the vault holds of the messages, and draw canaries."""
    natives = {r["session_id"]: r["native_id"] for r in store.read(SESSIONS, ["session_id", "native_id"]).to_pylist()}
    texts: list[str] = []
    for row in _iter_rows(store, plan.messages):
        plan.hashes.append((row["message_id"], row["identity"], row["hash"]))
        plan.said.append((natives.get(row["session_id"], ""), row["native_id"]))
        plan.sessions.append(row["session_id"])
        plan.recalled += hash_spans([row["text"]])
        texts += _list_texts(row) if len(plan.hashes) % max(1, len(gone) // SAMPLED) == 0 else []
    plan.sessions, plan.recalled = sorted(set(plan.sessions)), sorted(set(plan.recalled))
    left = gone | read_forgotten(store, "message")
    mine = store.read_ids(MESSAGES, plan.sessions, ["message_id", "session_id"], by="session_id").to_pylist()
    plan.whole = sorted(set(plan.sessions) - {r["session_id"] for r in mine if r["message_id"] not in left})
    probes = [f"{one.question}\0{one.answer}" for one in read_probes(store.dir) if one.probe_id not in plan.probes]
    plan.canaries = pick_canaries(texts, chain(probes, _iter_kept_texts(store, gone, set(plan.sessions))))


def _plan_derived(store: Store, plan: Plan, gone: set[str]) -> None:
    """Note what was made of the messages."""
    sessions = set(plan.sessions)
    columns = ["observation_id", "session_id", "message_ids", "observer", "canonical_id", "topic_id"]
    claims = store.read(OBSERVATIONS, columns).to_pylist()
    lost = find_claims(claims, gone, sessions)
    plan.claims = sorted(lost)
    mine = [row for row in claims if row["observation_id"] in lost]
    plan.shrunk = sorted({row["canonical_id"] for row in mine if row["canonical_id"]} - lost)
    topics = store.read(TOPICS, ["topic_id", "samples"]).to_pylist()
    sampled = {row["topic_id"] for row in topics if lost & set(row["samples"])}
    plan.topics = sorted({row["topic_id"] for row in mine if row["topic_id"]} | sampled)
    summaries = store.read(SUMMARIES, ["summary_id", "scope", "scope_id", "member_ids"]).to_pylist()
    plan.summaries = sorted(find_summaries(summaries, sessions, lost))
    hashes = store.read_ids(LINES, plan.sessions, ["hashes"])["hashes"].to_pylist()
    plan.spans = sorted({format_span_id(one) for mine in hashes for one in mine})
    paths = {row["path"] for row in store.read_ids(SESSIONS, plan.sessions, ["path"]).to_pylist()}
    units = sessions | gone | lost | set(plan.topics)
    held = store.read(QUARANTINE, ["quarantine_id", "path", "row_id"]).to_pylist()
    plan.quarantine += find_quarantined(held, paths, units)
    asked = store.read(COMPLETIONS, ["completion_id", "request_id"]).to_pylist()
    if asked:
        every = {row["session_id"] for row in store.read(SESSIONS, ["session_id"]).to_pylist()}
        every |= set(store.read(MESSAGES, ["message_id"])["message_id"].to_pylist())
        every |= {row["topic_id"] for row in topics}
        plan.completions = sorted(find_completions(asked, every - units))


def _count_rows(store: Store, plan: Plan) -> dict[str, int]:
    """Return how many rows of each table go, or are blanked."""
    return {
        "messages": len(plan.messages),
        "sessions": len(plan.whole),
        "passages": store.read_ids(PASSAGES, plan.messages, ["passage_id"], by="message_id").num_rows,
        "gists": store.read_ids(GISTS, plan.messages, ["message_id"]).num_rows,
        "observations": len(plan.claims),
        "topics": len(plan.topics),
        "summaries": len(plan.summaries),
        "boilerplate": store.read_ids(BOILERPLATE, plan.spans, ["span_id"]).num_rows,
        "quarantine": len(plan.quarantine),
        "completions": len(plan.completions),
        "probes": len(plan.probes),
    }


def _find_old_quarantine(store: Store, before: datetime) -> set[str]:
    """Return what was quarantined of files that did not change since, or of which nothing is known any more."""
    changed = {row["path"]: row["mtime_ns"] for row in store.read(FILES, ["path", "mtime_ns"]).to_pylist()}
    held = store.read(QUARANTINE, ["quarantine_id", "path", "excerpt"]).to_pylist()
    limit = before.timestamp() * 1e9
    return {r["quarantine_id"] for r in held if r["path"] and r["excerpt"] and changed.get(r["path"], 0) < limit}


def _iter_rows(store: Store, ids: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(ids), AT_ONCE):
        yield from store.read_ids(MESSAGES, ids[start : start + AT_ONCE]).to_pylist()


def _iter_kept_texts(store: Store, gone: set[str], sessions: set[str]) -> Iterator[str]:
    """Yield all that stays and is text, of people, files and folders."""
    columns = ["message_id", "text", "speaker", "blocks", "workspace", "native_id"]
    for batch in store.open_dataset(MESSAGES).to_batches(columns=columns):
        for row in batch.to_pylist():
            if row["message_id"] not in gone:
                yield from (*_list_texts(row), row["workspace"] or "", row["native_id"])
    for row in store.read(SESSIONS, ["session_id", "path", "title", "workspace", "native_id"]).to_pylist():
        yield from (row["path"], row["native_id"])
        if row["session_id"] not in sessions:
            yield from (row["title"] or "", row["workspace"] or "")
    yield from store.read(FILES, ["path"])["path"].to_pylist()


def _list_texts(row: Row) -> list[str]:
    """Return the words of a row of MESSAGES."""
    in_blocks = (value for block in row["blocks"] for value in (block["text"], block["name"]))
    return [text for text in (row["text"], row["speaker"], *in_blocks) if text]


def _join_words(row: Row) -> str:
    return f"{row['reason']} {row['excerpt'] or ''}"


def _merge(store: Store, table: Table, rows: list[Row]) -> None:
    store.merge(table, pa.Table.from_pylist(rows, schema=table.schema))


def _delete_by(store: Store, table: Table, column: str, ids: Collection[str]) -> None:
    """Remove the rows that are there; none, and no version is made."""
    found = store.read_ids(table, ids, [table.key], by=column)
    store.delete_ids(table, found[table.key].to_pylist())
