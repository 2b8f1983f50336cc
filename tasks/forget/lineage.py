"""Find all rows that were made from some messages, and write them down as a plan before anything is erased."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.tables import (
    BOILERPLATE,
    CLAIMS,
    COMPLETIONS,
    EXCLUSIONS,
    FILES,
    GISTS,
    LINES,
    MERGES,
    MESSAGES,
    PASSAGES,
    QUARANTINE,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPICS,
)
from slowwave.store.logs import Rating, hash_spans, read
from slowwave.store.notes import FORGETTING
from slowwave.store.private import make_private_folder, replace_file
from slowwave.store.store import Store
from slowwave.tasks.forget.canaries import pick_canaries
from slowwave.tasks.forget.erase import FORGOTTEN_REASON, blank_message
from slowwave.tasks.forget.exports import holds_any, list_exports
from slowwave.tasks.forget.plan import Plan, find_summaries, read_forgotten, touch
from slowwave.tasks.forget.spelling import Words
from slowwave.text.spans import format_span_id

AT_ONCE = 2_000
SAMPLED = 500
"""About how many messages give texts for canaries."""


def make_plan(
    store: Store,
    run_id: str,
    why: Iterable[str],
    messages: Collection[str],
    *,
    matches: Sequence[str] = (),
) -> Plan:
    """Return the plan to forget some messages and all rows made from them. Nothing is written or erased.

    Args:
        store: the store to search.
        run_id: the run that forgets.
        why: the kinds of the request.
        messages: ids; messages that are forgotten already are left out.
        matches: words; titles, lines in quarantine and a person's reasons that contain them are forgotten too.
    """
    gone = set(messages) - read_forgotten(store, "message")
    plan = Plan(
        run_id=run_id,
        at=datetime.now(UTC).isoformat(),
        why=sorted(why),
        messages=sorted(gone),
    )
    words = Words(matches) if matches else None
    if words:
        plan.quarantine = _match_quarantine(store, words)
        plan.sessions = _match_titles(store, words)
    if gone or plan.sessions:
        _plan_sessions(store, plan, gone)
        _plan_claims(store, plan, gone)
        _plan_summaries(store, plan)
        _plan_quarantine(store, plan)
        _plan_completions(store, plan)
    plan.reasons = sorted(_find_reasons(store, plan, words))
    plan.exports = _find_exports(store, plan)
    plan.quarantine = sorted(set(plan.quarantine) - read_forgotten(store, "quarantine"))
    plan.counts = _count_rows(store, plan)
    return plan


def _match_quarantine(store: Store, words: Words) -> list[str]:
    """Return ids of the lines in quarantine that contain the words."""
    columns = ["quarantine_id", "reason", "excerpt"]
    rows = store.read(QUARANTINE, columns).to_pylist()
    texts = [f"{row['reason']} {row['excerpt'] or ''}" for row in rows]
    ids = [row["quarantine_id"] for row in rows]
    return list(compress(ids, words.stand_in(texts)))


def _match_titles(store: Store, words: Words) -> list[str]:
    """Return ids of the sessions whose titles contain the words."""
    titled = store.read(SESSIONS, ["session_id", "title"])
    hits = words.stand_in(titled["title"].to_pylist())
    return list(compress(titled["session_id"].to_pylist(), hits))


def _plan_sessions(store: Store, plan: Plan, gone: set[str]) -> None:
    """Add to the plan the sessions that lose a message, and those that lose all messages."""
    rows = store.read(MESSAGES, ["message_id", "session_id"])
    sessions = rows["session_id"]
    lost = pc.is_in(rows["message_id"], pa.array(gone, pa.string()))
    every_gone = pa.array(gone | read_forgotten(store, "message"), pa.string())
    left = pc.invert(pc.is_in(rows["message_id"], every_gone))
    losing = sessions.filter(lost).unique().to_pylist()
    plan.sessions = sorted({*plan.sessions, *losing})
    keeping = set(sessions.filter(left).unique().to_pylist())
    plan.whole = sorted(set(plan.sessions) - keeping)


def _find_exports(store: Store, plan: Plan) -> list[tuple[str, str]]:
    """Return path and time of each export that contains a row of the plan."""
    ids = {
        *plan.messages,
        *plan.sessions,
        *plan.claims,
        *plan.summaries,
        *plan.topics,
        *plan.quarantine,
    }
    return [
        (export.path, export.at)
        for export in list_exports(store.dir)
        if ids and holds_any(export, ids)
    ]


def _count_rows(store: Store, plan: Plan) -> dict[str, int]:
    """Return the number of rows of each table that are erased or blanked."""
    titles = store.read_ids(SESSIONS, plan.sessions, ["title"])["title"]
    passages = store.read_ids(PASSAGES, plan.messages, ["passage_id"], by="message_id")
    gists = store.read_ids(GISTS, plan.messages, ["message_id"])
    boilerplate = store.read_ids(BOILERPLATE, plan.spans, ["span_id"])
    return {
        "messages": len(plan.messages),
        "sessions": len(plan.whole),
        "titles": pc.count(titles).as_py(),
        "passages": passages.num_rows,
        "gists": gists.num_rows,
        "claims": len(plan.claims),
        "topics": len(plan.topics),
        "summaries": len(plan.summaries),
        "boilerplate": boilerplate.num_rows,
        "quarantine": len(plan.quarantine),
        "completions": len(plan.completions),
        "reasons": len(plan.reasons),
    }


def write_plan(space_dir: Path, plan: Plan) -> None:
    """Write a plan to the space's folder, in place of an older version of it."""
    make_private_folder(space_dir / FORGETTING)
    replace_file(
        space_dir / FORGETTING / f"{plan.run_id}.json",
        TypeAdapter(Plan).dump_json(plan),
    )


def read_plans(space_dir: Path) -> list[Plan]:
    """Return the plans that are not carried out yet, sorted by run: those of killed runs, and that of this run.

    Raises:
        StoreUnreadable: a plan is malformed, so its forgetting can't be finished.
    """
    plans = []
    for path in sorted((space_dir / FORGETTING).glob("*.json")):
        try:
            plans.append(TypeAdapter(Plan).validate_json(path.read_bytes()))
        except ValueError:
            why = f"{FORGETTING}/{path.name} is altered: put it back from a backup, or remove it and forget again"
            raise StoreUnreadable(space_dir, why) from None
    return plans


def drop_plan(space_dir: Path, plan: Plan) -> None:
    """Delete the file of a plan that is carried out, if it exists."""
    (space_dir / FORGETTING / f"{plan.run_id}.json").unlink(missing_ok=True)


def complete_plan(store: Store, plan: Plan) -> None:
    """Add to the plan what only the erasing needs: ids and hashes of the messages, and canaries.

    This reads all texts of the store.
    """
    rows = store.read(SESSIONS, ["session_id", "native_id", "title"]).to_pylist()
    sessions = {row["session_id"]: row for row in rows}
    texts: list[str] = []
    for row in _iter_rows(store, plan.messages):
        plan.blanks.append((blank_message(row)["message_id"], row["identity"]))
        plan.said.append(
            (sessions.get(row["session_id"], {}).get("native_id", ""), row["native_id"])
        )
        plan.recalled += hash_spans([row["text"]])
        texts += (
            _list_texts(row)
            if len(plan.blanks) % max(1, len(plan.messages) // SAMPLED) == 0
            else []
        )
    plan.recalled = sorted(set(plan.recalled))
    texts += [
        title
        for session in plan.sessions
        if (title := sessions.get(session, {}).get("title"))
    ]
    plan.canaries = pick_canaries(
        texts, _iter_kept_texts(store, set(plan.messages), set(plan.sessions))
    )


def _plan_claims(store: Store, plan: Plan, gone: set[str]) -> None:
    """Add to the plan the claims made from the messages, those that lose evidence, and the topics of the former."""
    columns = [
        "claim_id",
        "session_id",
        "message_ids",
        "observer",
        "topic_id",
        "evidence_sessions",
    ]
    claims = store.read(CLAIMS, columns)
    ids = claims["claim_id"]
    cites_gone = touch(claims["message_ids"], gone)
    # A model's claim may repeat what it read in another message of the session, so all claims of a model go.
    inside = pc.is_in(claims["session_id"], pa.array(plan.sessions, pa.string()))
    by_model = pc.not_equal(claims["observer"], "extractive")
    lost = pc.or_(cites_gone, pc.and_(inside, by_model))
    plan.claims = sorted(ids.filter(lost).to_pylist())
    plan.denied = sorted(ids.filter(cites_gone).to_pylist())
    touched = touch(claims["evidence_sessions"], set(plan.sessions))
    borne_out = ids.filter(touched).to_pylist()
    plan.shrunk = sorted(set(borne_out).difference(plan.claims))
    plan.linked = _find_linked(store, plan.claims)
    topics = store.read(TOPICS, ["topic_id", "samples"])
    sampled = topics["topic_id"].filter(touch(topics["samples"], plan.claims))
    assigned = claims["topic_id"].filter(lost).drop_null().unique()
    plan.topics = sorted({*assigned.to_pylist(), *sampled.to_pylist()})


def _find_linked(store: Store, claims: Sequence[str]) -> list[str]:
    """Return the claims of the pairs in the ledger that have one of these claims, without these."""
    ends = ["from_id", "into_id"]
    pairs = [store.read_ids(MERGES, claims, ends, by=end) for end in ends]
    linked = {id_ for rows in pairs for end in ends for id_ in rows[end].to_pylist()}
    return sorted(linked.difference(claims))


def _plan_summaries(store: Store, plan: Plan) -> None:
    """Add to the plan the summaries of its sessions and claims, and the spans of boilerplate in the sessions."""
    summaries = store.read(SUMMARIES, ["summary_id", "scope", "scope_id", "member_ids"])
    plan.summaries = sorted(find_summaries(summaries, set(plan.sessions), plan.claims))
    hashes = store.read_ids(LINES, plan.sessions, ["hashes"])["hashes"].to_pylist()
    plan.spans = sorted({format_span_id(span) for spans in hashes for span in spans})


def _plan_quarantine(store: Store, plan: Plan) -> None:
    """Add to the plan the lines in quarantine that come from its sessions' files or are about one of its rows."""
    sessions = store.read_ids(SESSIONS, plan.sessions, ["path"])
    paths = set(sessions["path"].to_pylist())
    units = _list_units(plan)
    columns = ["quarantine_id", "path", "row_id"]
    plan.quarantine += [
        line["quarantine_id"]
        for line in store.read(QUARANTINE, columns).to_pylist()
        if line["path"] in paths or (line["row_id"] or "").split("/")[0] in units
    ]


def _plan_completions(store: Store, plan: Plan) -> None:
    """Add to the plan all of a model's answers, except those that are certainly about other rows.

    An answer about a pair or a batch of claims is named by a hash of several ids, so all of these go.
    """
    answers = store.read(COMPLETIONS, ["completion_id", "request_id"]).to_pylist()
    if not answers:
        return
    every = {
        *store.read(SESSIONS, ["session_id"])["session_id"].to_pylist(),
        *store.read(MESSAGES, ["message_id"])["message_id"].to_pylist(),
        *store.read(TOPICS, ["topic_id"])["topic_id"].to_pylist(),
    }
    safe = every - _list_units(plan)
    plan.completions = sorted(
        row["completion_id"]
        for row in answers
        if row["request_id"].split("/")[0] not in safe
    )


def _list_units(plan: Plan) -> set[str]:
    """Return the plan's ids that a request to a model or a line in quarantine may be about."""
    return {*plan.sessions, *plan.messages, *plan.claims, *plan.topics}


def _find_reasons(store: Store, plan: Plan, words: Words | None) -> set[str]:
    """Return ids of exclusions, ratings and runs whose reason or report must go.

    A reason must go if it is about a session or claim of the plan, or if it contains the words.
    """
    about = {*plan.sessions, *plan.claims}
    given = [
        *(
            (row["row_id"], row["session_id"], row["why"])
            for row in store.read(EXCLUSIONS).to_pylist()
        ),
        *(
            (row["run_id"], "", row["report"])
            for row in store.read(RUNS).to_pylist()
            if words
        ),
        *(
            (rating.id, rating.id, rating.why)
            for rating in read(store.dir, Rating)
            if rating.why
        ),
    ]
    holds = (
        words.stand_in([why for _, _, why in given]) if words else [False] * len(given)
    )
    return {
        key
        for (key, session, why), has_words in zip(given, holds, strict=True)
        if why != FORGOTTEN_REASON and (about & {key, session} or has_words)
    }


def _iter_rows(store: Store, ids: list[str]) -> Iterator[MessageRow]:
    for start in range(0, len(ids), AT_ONCE):
        yield from store.read_ids(MESSAGES, ids[start : start + AT_ONCE]).to_pylist()


def _iter_kept_texts(store: Store, gone: set[str], sessions: set[str]) -> Iterator[str]:
    """Yield all texts that stay: messages, speakers, titles, workspaces, native ids and paths."""
    columns = ["message_id", "text", "speaker", "blocks", "workspace", "native_id"]
    for batch in store.open_dataset(MESSAGES).to_batches(columns=columns):
        for row in batch.to_pylist():
            if row["message_id"] not in gone:
                yield from (*_list_texts(row), row["workspace"] or "", row["native_id"])
    for row in store.read(
        SESSIONS, ["session_id", "path", "title", "workspace", "native_id"]
    ).to_pylist():
        yield from (row["path"], row["native_id"])
        if row["session_id"] not in sessions:
            yield from (row["title"] or "", row["workspace"] or "")
    yield from store.read(FILES, ["path"])["path"].to_pylist()


def _list_texts(row: MessageRow) -> list[str]:
    """Return the texts of a row of MESSAGES: its text, its speaker, and the texts and names in its blocks."""
    in_blocks = (
        value for block in row["blocks"] for value in (block["text"], block["name"])
    )
    return [text for text in (row["text"], row["speaker"], *in_blocks) if text]
