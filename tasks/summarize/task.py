"""Summarise every full group of topics and sessions, and write each session's master summary."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.budget import estimate_tokens
from slowwave.schemas.counters import Count
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import MessageRow, SummaryRow
from slowwave.schemas.settings import PyramidSettings
from slowwave.schemas.tables import CLAIMS, MESSAGES, SUMMARIES, TOPICS, TRUST
from slowwave.schemas.vocabulary import (
    SHARED,
    SPOKEN,
    Status,
    SummaryScope,
    Trust,
    find_least_trust,
    is_own,
    name_speaker,
)
from slowwave.store.store import Store
from slowwave.tasks.boilerplate.task import Mask
from slowwave.tasks.isolate import do_apart, note_failed_units
from slowwave.tasks.job import (
    Job,
    StepReport,
    compute_step_key,
    digest_shipped,
    report_step,
)
from slowwave.tasks.llm.ask import (
    SESSIONS_MESSAGES,
    Model,
    compute_model_key,
    get_model,
    quarantine_rejected,
)
from slowwave.tasks.observe.worth import WORTH_FILE
from slowwave.tasks.pending import (
    find_pending_sessions,
    mark_sessions_done,
    read_inactive_ids,
    read_trust,
    split_batches,
)
from slowwave.tasks.progress import show_progress
from slowwave.tasks.shards import ShardStep, spread
from slowwave.tasks.summarize import by_model
from slowwave.tasks.summarize.by_model import (
    MEASURED,
    SummaryWriter,
    TopicInfo,
    measure_summaries,
)
from slowwave.tasks.summarize.coherence import count_coherence
from slowwave.tasks.summarize.mend import mend
from slowwave.tasks.summarize.worthy import VERSION as WORTHY_VERSION
from slowwave.tasks.summarize.worthy import (
    cut_to_worthy_sentences,
    tell_session,
    title_session,
    weigh_sentences,
)
from slowwave.tasks.trust import UNKNOWN, MessageTrust
from slowwave.tasks.trust import VERSION as TRUST_VERSION
from slowwave.tasks.vectors import (
    attach_vectors_if_there,
    describe_encoder,
    fill_missing_vectors,
)
from slowwave.text.pyramid import (
    MASTER,
    Draft,
    Group,
    Growth,
    Member,
    Pyramid,
    Shape,
    build_summary_row,
    grow_by_tier,
    grow_many,
)
from slowwave.text.summarise import Utterance, build_extractive_summary

MESSAGES_AT_ONCE = 2_000
SMALL = 3
"""Least number of a topic's claims for a model to summarise them before they fill a group."""
MEMBER = ["claim_id", "topic_id", "summary", "speaker", "observed_at", TRUST]
GROUP = [
    "scope_id",
    "tier",
    "seq",
    "text",
    "member_ids",
    "first_at",
    "last_at",
    "sealed",
    "stale",
]
PARTS = pa.list_(pa.struct([("text", pa.string()), ("speaker", pa.string())]))
DRAFTS = pa.schema(
    [
        ("place", pa.int64()),
        ("scope_id", pa.string()),
        ("words", pa.int64()),
        ("members", PARTS),
        ("context", PARTS),
    ]
)
WRITTEN = pa.schema(
    [("place", pa.int64()), ("scope_id", pa.string()), ("text", pa.string())]
)


class SessionOutline(TypedDict):
    """What is written of a session without a model, as in TOLD."""

    title: str | None
    told: str | None
    """The master summary."""
    texts: list[str]
    """The sentences worth remembering of each message."""


NO_OUTLINE: SessionOutline = {"title": None, "told": None, "texts": []}
TOLD = pa.schema(
    [(name, pa.string()) for name in ("session_id", "title", "told")]
    + [("texts", pa.list_(pa.string()))]
)


@dataclass
class Scope:
    """A topic or session whose pyramid grows."""

    scope: str
    id: str
    about: Mapping[str, str | None]
    """The `title` and `workspace` of its summaries."""
    pyramid: Pyramid
    before: Mapping[str, Group]
    """Its groups by id as they are stored."""
    lost: int
    """The number of groups that lost a member, or whose members changed."""
    growth: Growth
    master_text: str | None = None
    """A session's master summary, if it is written without a model."""
    trust: Mapping[str, str | None] = field(default_factory=dict)
    """The trust of each member, by its id."""

    def collect_groups(self) -> dict[str, Group]:
        """Return the groups by id, as they are now."""
        groups = [g for tier in self.pyramid.tiers.values() for g in tier]
        groups += [self.pyramid.master] if self.pyramid.master else []
        return {group.compute_id(self.scope, self.id): group for group in groups}

    def find_trust(
        self,
        group: Group,
        groups: Mapping[str, Group],
    ) -> Trust:
        """Return the least trust among a group's members: claims, messages, or groups of the tier below."""
        return find_least_trust(
            self.find_trust(groups[key], groups)
            if key in groups
            else self.trust.get(key)
            for key in group.members
        )


@dataclass(frozen=True)
class TopicTalk:
    """The topics to summarise, with their claims."""

    claims: Mapping[str, pl.DataFrame]
    """topic_id -> its active claims in order of time, with the columns of MEMBER."""
    names: Mapping[str, str]
    sealed: Mapping[str, Pyramid]

    def count_claims(self) -> int:
        """Return the number of claims of all topics."""
        return sum(claims.height for claims in self.claims.values())


def roll_up(job: Job, only: frozenset[str] | None = None) -> StepReport:
    """Seal and summarise full groups; delete summaries of other settings once their replacements exist.

    With `only`, summarise the sessions with these ids, and no topic.
    """
    with report_step("rollup") as report:
        model = get_model(job, "summaries")
        key = compute_summaries_key(job, model)
        fill_missing_vectors(job=job, table=SUMMARIES, column="text", report=report)
        every = find_sessions_to_summarise(job, key)
        if only is None:
            pending = every
            talk = _read_topic_talk(job, key, by_model=model is not None)
        else:
            pending = every.filter(pl.col("session_id").is_in(sorted(only)))
            talk = TopicTalk({}, {}, {})
        report.counts[Count.SESSIONS_SUMMARISED] = pending.height
        report.rows_in = talk.count_claims()
        waiting, failed = _grow_all(
            job=job, key=key, pending=pending, model=model, report=report, talk=talk
        )
        note_failed_units(
            job=job,
            report=report,
            kind="session",
            failed={unit: failed[unit] for unit in failed if unit not in talk.claims},
            left=set(every["session_id"]) - set(pending["session_id"]),
        )
        _delete_replaced(
            store=job.store, key=key, waiting={*waiting, *failed}, only=only
        )
        if only is None:
            of_topics = {unit: failed[unit] for unit in failed if unit in talk.claims}
            note_failed_units(job=job, report=report, kind="topic", failed=of_topics)
            _write_topic_texts(job.store)
        report.counts[Count.SUMMARIES_STALE] = job.store.count(
            SUMMARIES, pc.field("stale")
        )
    return report


def _delete_replaced(
    store: Store,
    key: str,
    waiting: Set[str],
    only: Set[str] | None,
) -> None:
    """Delete summaries of another key, except of topics and sessions that wait or are not in `only`."""
    old = store.read(
        SUMMARIES, ["summary_id", "scope_id"], pc.field("step_key") != key
    ).to_pylist()
    replaced = []
    for row in old:
        if row["scope_id"] not in waiting and (only is None or row["scope_id"] in only):
            replaced.append(row["summary_id"])
    store.delete_ids(SUMMARIES, replaced)


def _write_topic_texts(store: Store) -> None:
    """Set the text of each topic to its master summary, if it has one (written by a model)."""
    is_master = (pc.field("scope") == SummaryScope.TOPIC) & (pc.field("tier") == MASTER)
    summaries = store.read(SUMMARIES, ["scope_id", "text"], is_master).to_pylist()
    texts = {row["scope_id"]: row["text"] for row in summaries}
    rows = [
        {**row, "text": texts[row["topic_id"]]}
        for row in store.read_ids(TOPICS, texts).to_pylist()
    ]
    store.merge_changed(TOPICS, pa.Table.from_pylist(rows, schema=TOPICS.schema))


def find_sessions_to_summarise(job: Job, key: str) -> pl.DataFrame:
    """Return the sessions to summarise, as `find_pending_sessions` does.

    Imported claims are skipped: they are single sentences.
    """
    return find_pending_sessions(job.store, "rollup", key).filter(
        pl.col("source") != SHARED
    )


def compute_summaries_key(job: Job, model: Model | None) -> str:
    """Return the step key of summaries: everything but the members that they depend on."""
    encoder = describe_encoder(job.settings)
    key = compute_step_key("rollup", 7, TRUST_VERSION, job.settings.pyramid, encoder)
    if model is None:
        return compute_content_id(key, str(WORTHY_VERSION), digest_shipped(WORTH_FILE))
    return compute_model_key(
        model, "rollup", by_model.VERSION, by_model.SUMMARY_PROMPTS, key
    )


def _grow_all(
    job: Job,
    key: str,
    pending: pl.DataFrame,
    model: Model | None,
    report: StepReport,
    talk: TopicTalk,
) -> tuple[set[str], dict[str, Exception]]:
    """Grow and store topics and sessions; return the ids of those that wait, and the errors of those that failed.

    With a model, the topics grow together with the first sessions: each tier is one batch, and the model is closed
    before the summaries are encoded.
    """
    narrator = (
        SummaryWriter(
            job=job, model=model, report=report, topics=load_topic_info(job.store)
        )
        if model
        else None
    )
    gone = read_inactive_ids(job.store)
    waiting: set[str] = set()

    def grow_some(ids: Sequence[str]) -> None:
        sessions = pending.filter(pl.col("session_id").is_in(ids))
        of_sessions = load_session_scopes(
            job=job, group=sessions, gone=gone, key=key, whole=model is not None
        )
        scopes = [
            *_build_topic_scopes(job, talk, ids, by_model=model is not None),
            *of_sessions,
        ]
        late = _grow_and_store(
            job=job, key=key, scopes=scopes, narrator=narrator, report=report
        )
        waiting.update(late)
        done = sessions.filter(~pl.col("session_id").is_in(sorted(late)))
        mark_sessions_done(job.store, "rollup", done)

    failed: dict[str, Exception] = {}
    with show_progress("rollup", pending.height + len(talk.claims)) as advance:
        for batch in _split_scopes(
            job, pending, [*talk.claims], by_model=model is not None
        ):
            failed |= do_apart(batch, grow_some)
            advance(len(batch))
    if narrator:
        _measure_written(job=job, key=key, narrator=narrator, report=report)
    return waiting, failed


def _split_scopes(
    job: Job,
    pending: pl.DataFrame,
    topics: list[str],
    *,
    by_model: bool,
) -> list[list[str]]:
    """Return batches of ids: the topics, which a model gets together with the first sessions, and the sessions."""
    groups = split_batches(
        pending,
        SESSIONS_MESSAGES if by_model else MESSAGES_AT_ONCE * job.executor.at_once,
    )
    batches = [group["session_id"].to_list() for group in groups]
    if by_model and batches:
        return [[*topics, *batches[0]], *batches[1:]]
    return [topics, *batches]


def _measure_written(
    job: Job,
    key: str,
    narrator: SummaryWriter,
    report: StepReport,
) -> None:
    """Count the coherence of the summaries that the model wrote, now that all members have vectors."""
    rows = (
        job.store.read(SUMMARIES, MEASURED, pc.field("step_key") == key).to_pylist()
        if narrator.written
        else []
    )
    own_rows = [
        row
        for row in rows
        if f"{row['scope_id']}/{row['tier']}/{row['seq']}" in narrator.written
    ]
    measured = measure_summaries(job.store, own_rows, job.settings.pyramid.sum_window)
    for count, tiers in count_coherence(measured).items():
        report.kinds[count].update(tiers)


def _grow_and_store(
    job: Job,
    key: str,
    scopes: list[Scope],
    narrator: SummaryWriter | None,
    report: StepReport,
) -> set[str]:
    """Grow these pyramids together, store them, and return the ids of those that wait for a summary."""
    masters = {scope.id: scope.master_text for scope in scopes}
    write = narrator.write if narrator else partial(_extract_texts, job, key, masters)
    grown = grow_many([scope.growth for scope in scopes], write)
    rows: list[SummaryRow] = []
    gone: list[str] = []
    waiting: set[str] = set()
    for scope, result in zip(scopes, grown, strict=True):
        groups = scope.collect_groups()
        made = _select_made(scope, groups, complete=result.complete)
        if narrator and (
            not result.complete or any(group.stale for group in groups.values())
        ):
            waiting.add(scope.id)
        rows += _build_summary_rows(
            scope=scope,
            groups=groups,
            made=made,
            master_title=narrator.titles.get(scope.id) if narrator else None,
            key=key,
        )
        gone += scope.before.keys() - groups.keys()
        report.counts[Count.GROUPS_SHRUNK] += scope.lost
        if scope.scope == SummaryScope.TOPIC:
            report.counts[Count.GROUPS_SEALED] += len(made)
    if narrator:
        _close_writer(job, narrator, report)
    _store_summaries(job=job, rows=rows, gone=gone, report=report)
    return waiting


def _extract_texts(
    job: Job,
    key: str,
    masters: Mapping[str, str | None],
    drafts: list[Draft],
) -> list[str | None]:
    """Return the summary of each draft without a model: a session's given master, else an extract."""
    texts = [
        masters.get(draft.scope_id) if draft.tier == MASTER else None
        for draft in drafts
    ]
    rows = [
        {
            "place": at,
            "scope_id": draft.scope_id,
            "words": job.settings.pyramid.get_words(draft.tier),
            "members": _list_parts(draft.members),
            "context": _list_parts(draft.context),
        }
        for at, draft in enumerate(drafts)
        if not texts[at]
    ]
    step = ShardStep(name="summaries", settings=key, schema=WRITTEN, do=write_shard)
    for row in spread(
        executor=job.executor,
        step=step,
        rows=pa.Table.from_pylist(rows, schema=DRAFTS),
        by="scope_id",
    ).to_pylist():
        texts[row["place"]] = row["text"]
    return texts


def _select_made(
    scope: Scope, groups: Mapping[str, Group], *, complete: bool
) -> dict[str, Group]:
    """Return the groups that are new or changed; if the growth is not complete, only those that replace a stored one.

    New groups then wait until all their summaries exist. Groups that lost a member do not wait.
    """
    made = {
        group_id: group
        for group_id, group in groups.items()
        if group != scope.before.get(group_id)
    }
    if complete:
        return made
    places = {(group.tier, group.seq) for group in scope.before.values()}
    return {
        group_id: group
        for group_id, group in made.items()
        if (group.tier, group.seq) in places
    }


def _build_summary_rows(
    scope: Scope,
    groups: Mapping[str, Group],
    made: Iterable[str],
    master_title: str | None,
    key: str,
) -> Iterator[SummaryRow]:
    """Yield rows of SUMMARIES for some groups; a master without a title gets `master_title`."""
    for group_id in made:
        group = groups[group_id]
        row = build_summary_row(
            group=group,
            scope=scope.scope,
            scope_id=scope.id,
            about=scope.about,
            key=key,
        )
        title = row["title"] or (master_title if row["tier"] == MASTER else None)
        trust = scope.find_trust(group, groups)
        yield row | {"title": title, "trust": trust}


def _close_writer(job: Job, narrator: SummaryWriter, report: StepReport) -> None:
    """Free the GPU for the encoder, and store the model's usage and its unusable answers."""
    narrator.model.llm.free_gpu()
    narrator.model.record_usage(report)
    quarantine_rejected(
        store=job.store,
        step="rollup",
        rejected=narrator.rejected,
        settled=narrator.written,
        report=report,
    )
    narrator.rejected = []


def _store_summaries(
    job: Job,
    rows: list[SummaryRow],
    gone: Iterable[str],
    report: StepReport,
) -> None:
    """Write new summaries, then delete those that are gone.

    If a run is killed in between, `mend` keeps one group of each place.
    """
    table = pa.Table.from_pylist(rows, schema=SUMMARIES.schema)
    table = attach_vectors_if_there(job=job, rows=table, column="text", report=report)
    job.store.merge(SUMMARIES, table)
    left = job.store.read_ids(SUMMARIES, gone, ["summary_id"])
    job.store.delete_ids(SUMMARIES, left["summary_id"].to_pylist())
    report.rows_out += len(rows)


def _list_parts(members: Sequence[Member]) -> list[dict[str, str | None]]:
    return [{"text": member.text, "speaker": member.speaker} for member in members]


def write_shard(shard: pa.Table) -> pa.Table:
    """Return the extractive summary of each draft of a shard."""
    texts = [
        build_extractive_summary(
            [Utterance(**p) for p in row["members"]],
            row["words"],
            [Utterance(**p) for p in row["context"]],
        )
        for row in shard.to_pylist()
    ]
    return pa.table(
        [shard["place"], shard["scope_id"], pa.array(texts, pa.string())],
        schema=WRITTEN,
    )


def weigh_shard(shard: pa.Table, *, every: int, words: int) -> pa.Table:
    """Return for each session of a shard its title, its master summary, and the text of each message."""
    rows = []
    for session, messages in _group_by_session(shard).items():
        sentences = weigh_sentences(messages)
        rows.append(
            {
                "session_id": session,
                "title": title_session(sentences),
                "told": tell_session(sentences, words, messages),
                "texts": cut_to_worthy_sentences(sentences, messages, every),
            }
        )
    return pa.Table.from_pylist(rows, schema=TOLD)


def _group_by_session(messages: pa.Table) -> defaultdict[str, list[MessageRow]]:
    """Return messages by session, in order."""
    by_session: defaultdict[str, list[MessageRow]] = defaultdict(list)
    for row in messages.sort_by(
        [("session_id", "ascending"), ("seq", "ascending")]
    ).to_pylist():
        by_session[row["session_id"]].append(row)
    return by_session


def load_topic_info(store: Store) -> dict[str, TopicInfo]:
    """Return each topic's name and purpose, for the prompts of its summaries."""
    topics = store.read(TOPICS, ["topic_id", "name", "purpose"]).to_pylist()
    return {
        topic["topic_id"]: TopicInfo(topic["name"], topic["purpose"])
        for topic in topics
    }


def build_topic_shape(settings: PyramidSettings, *, by_model: bool = False) -> Shape:
    """Return the shape of a topic's pyramid: groups of `step` at every tier.

    With a model, a topic of at least SMALL claims also has a summary over all. Without a model it has none: its few
    claims need no summary.
    """
    small = SMALL if by_model else 0
    return Shape(
        first=settings.step,
        above=settings.step,
        small=small,
        master=by_model,
    )


def build_session_shape(settings: PyramidSettings, *, by_model: bool = False) -> Shape:
    """Return groups of `n_sum` messages, then of `n_sum_sum` summaries, in `max_sum_lvl` tiers, and a master.

    With a model, a group is full at `sum_tokens` tokens, and there are at least two groups.
    """
    return Shape(
        first=settings.sum_tokens if by_model else settings.n_sum,
        above=settings.n_sum_sum,
        tiers=settings.max_sum_lvl,
        window=settings.sum_window,
        master=True,
        min_groups=2 if by_model else 1,
    )


def _read_topic_talk(job: Job, key: str, *, by_model: bool) -> TopicTalk:
    """Return the topics that may need a summary: those with enough claims, and those with a stored pyramid.

    Without a model, topics whose summaries would not change are left out.
    """
    step = job.settings.pyramid.step
    claims = _read_topic_claims(job.store)
    sealed = _load_sealed_pyramids(job, "topic", key)
    if not by_model:
        settled = _find_settled_topics(claims, sealed, step)
        claims = claims.filter(~pl.col("topic_id").is_in([*settled]))
        sealed = {
            topic: pyramid for topic, pyramid in sealed.items() if topic not in settled
        }
    enough = pl.len().over("topic_id") >= (min(SMALL, step) if by_model else step)
    claims = claims.filter(enough | pl.col("topic_id").is_in([*sealed]))
    names = {
        row["topic_id"]: row["name"]
        for row in job.store.read(TOPICS, ["topic_id", "name"]).to_pylist()
    }
    by_topic = {
        str(k[0]): v for k, v in claims.group_by(["topic_id"], maintain_order=True)
    }
    without_claims = {
        topic: claims.clear() for topic in sealed if topic not in by_topic
    }
    return TopicTalk(by_topic | without_claims, names, sealed)


def _read_topic_claims(store: Store) -> pl.DataFrame:
    """Return the active claims of topics in order of time, without those from what was only read.

    Recall shows those, marked as such.
    """
    claims = pl.DataFrame(
        store.read(CLAIMS, MEMBER, pc.field("status") == Status.ACTIVE)
    )
    trust = pl.col(TRUST).fill_null(Trust.AGENT)
    return (
        claims.drop_nulls("topic_id")
        .filter(~trust.is_in([Trust.TOOL, Trust.OUTSIDE]))
        .sort("observed_at", "claim_id", nulls_last=True)
    )


def _find_settled_topics(
    claims: pl.DataFrame, sealed: Mapping[str, Pyramid], step: int
) -> set[str]:
    """Return the topics whose stored pyramid fits their claims."""
    members = dict(claims.group_by("topic_id").agg("claim_id").iter_rows())
    return {
        topic
        for topic, pyramid in sealed.items()
        if pyramid.is_settled(topic, members.get(topic, ()), step)
    }


def _build_topic_scopes(
    job: Job,
    talk: TopicTalk,
    ids: Sequence[str],
    *,
    by_model: bool,
) -> list[Scope]:
    """Return the topics among some ids, ready to grow."""
    scopes: list[Scope] = []
    for topic in ids:
        if topic not in talk.claims:
            continue
        members = [
            Member(r[0], r[2], r[4], speaker=r[3])
            for r in talk.claims[topic].select(MEMBER).iter_rows()
        ]
        about = {"title": talk.names.get(topic), "workspace": None}
        pyramid = talk.sealed.get(topic, Pyramid()).copy()
        shape = build_topic_shape(job.settings.pyramid, by_model=by_model)
        scope = _build_scope(
            scope="topic",
            scope_id=topic,
            about=about,
            pyramid=pyramid,
            members=members,
            shape=shape,
        )
        trust = talk.claims[topic].select("claim_id", TRUST)
        scope.trust = dict(trust.iter_rows())
        scopes.append(scope)
    return scopes


def _build_scope(
    scope: str,
    scope_id: str,
    about: Mapping[str, str | None],
    pyramid: Pyramid,
    members: list[Member],
    shape: Shape,
) -> Scope:
    """Return a topic or session ready to grow, after removing lost members."""
    built = Scope(
        scope=scope,
        id=scope_id,
        about=about,
        pyramid=pyramid,
        before={},
        lost=0,
        growth=grow_by_tier(
            pyramid=pyramid,
            members=members,
            shape=shape,
            scope=scope,
            scope_id=scope_id,
        ),
    )
    built.before = built.collect_groups()
    built.lost = mend(pyramid=pyramid, members=members, scope=scope, scope_id=scope_id)
    return built


def build_session_members(
    rows: Sequence[MessageRow], texts: Sequence[str], *, whole: bool
) -> list[Member]:
    """Return a session's messages as members with these texts; with `whole`, for a model, with token counts and
    speakers.
    """
    if whole:
        weights = estimate_tokens(texts)
        parts = zip(rows, texts, weights, strict=True)
        return [
            Member(
                id=r["message_id"],
                text=text,
                at=r["ts"],
                last_at=None,
                speaker=name_speaker(r),
                weight=weight,
            )
            for r, text, weight in parts
        ]
    return [
        Member(r["message_id"], text, r["ts"], speaker=r["speaker"])
        for r, text in zip(rows, texts, strict=True)
    ]


def load_session_scopes(
    job: Job,
    group: pl.DataFrame,
    gone: set[str],
    key: str,
    *,
    whole: bool,
) -> list[Scope]:
    """Return a group's sessions, with full messages (`whole`) or only their sentences worth remembering."""
    trust = read_trust(job, group["session_id"])
    messages = _read_spoken_messages(job, group, gone)
    if not whole:
        messages = keep_own_words(messages, trust)
    by_session = _group_by_session(messages)
    sealed = _load_sealed_pyramids(
        job=job, scope="session", key=key, ids=group["session_id"]
    )
    shape = build_session_shape(job.settings.pyramid, by_model=whole)
    outlines = (
        {}
        if whole
        else _outline_sessions(job=job, messages=messages, key=key, every=shape.first)
    )
    scopes: list[Scope] = []
    for info in group.iter_rows(named=True):
        sid = info["session_id"]
        turns = by_session[sid]
        outline = outlines.get(sid, NO_OUTLINE)
        texts = [row["text"] for row in turns] if whole else outline["texts"]
        members = build_session_members(turns, texts, whole=whole)
        about = info if whole else {**info, "title": info["title"] or outline["title"]}
        scope = _build_scope(
            scope="session",
            scope_id=sid,
            about=about,
            pyramid=sealed.get(sid, Pyramid()),
            members=members,
            shape=shape,
        )
        scope.master_text = outline["told"]
        scope.trust = {
            row["message_id"]: _find_trust(row, trust, whole=whole) for row in turns
        }
        scopes.append(scope)
    return scopes


def keep_own_words(
    messages: pa.Table,
    trust: Mapping[str, MessageTrust],
) -> pa.Table:
    """Return the messages with only the words of the person and of the own agent.

    Other parts of a text are blank, and messages without own words are left out. A session that has only others'
    words keeps them all.
    """
    rows = messages.select(["session_id", "message_id", "text"]).to_pylist()
    own = []
    for row in rows:
        known = trust.get(row["message_id"], UNKNOWN)
        own.append(known.keep_own_words(row["text"]) if is_own(known.own) else "")
    has_own = {
        row["session_id"] for row, text in zip(rows, own, strict=True) if text.strip()
    }
    texts = [
        text if row["session_id"] in has_own else row["text"]
        for row, text in zip(rows, own, strict=True)
    ]
    at = messages.schema.get_field_index("text")
    kept = messages.set_column(
        at, messages.schema.field(at), pa.array(texts, pa.string())
    )
    return kept.filter(pa.array([bool(text.strip()) for text in texts], pa.bool_()))


def _find_trust(
    row: MessageRow, trust: Mapping[str, MessageTrust], *, whole: bool
) -> Trust:
    """Return the trust of a summarised message.

    With `whole`, or if the message has no own words, this is the least trust of its parts. Else it is the trust of
    its own words (see `keep_own_words`).
    """
    known = trust.get(row["message_id"], UNKNOWN)
    has_parts = whole or not known.keep_own_words(row["text"]).strip()
    return known.find_least(0, len(row["text"])) if has_parts else known.own


def _read_spoken_messages(job: Job, sessions: pl.DataFrame, gone: set[str]) -> pa.Table:
    """Return the active messages of people and models in some sessions, masked, without empty ones."""
    columns = [
        "message_id",
        "session_id",
        "text",
        "ts",
        "role",
        "speaker",
        "seq",
        "origin",
        "blocks",
    ]
    spoken = pc.field("origin").isin([*map(str, SPOKEN)])
    stored = job.store.read_ids(
        table=MESSAGES,
        ids=sessions["session_id"],
        columns=columns,
        by="session_id",
        where=spoken,
    )
    is_left = (pc.field("text") != "") & ~pc.field("message_id").isin(
        pa.array(sorted(gone), pa.string())
    )
    return Mask(job).mask_messages(stored).filter(is_left)


def _outline_sessions(
    job: Job,
    messages: pa.Table,
    key: str,
    every: int,
) -> dict[str, SessionOutline]:
    """Return by session what is written without a model: title, master summary, and texts of messages."""
    words = job.settings.pyramid.get_words(MASTER)
    step = ShardStep(
        name="sessions",
        settings=key,
        schema=TOLD,
        do=partial(weigh_shard, every=every, words=words),
    )
    return {
        row["session_id"]: row
        for row in spread(
            executor=job.executor, step=step, rows=messages, by="session_id"
        ).to_pylist()
    }


def _load_sealed_pyramids(
    job: Job,
    scope: str,
    key: str,
    ids: Iterable[str] | None = None,
) -> dict[str, Pyramid]:
    """Return the stored pyramids of this key, by topic or session."""
    where = (pc.field("scope") == scope) & (pc.field("step_key") == key)
    rows = pl.DataFrame(job.store.read(SUMMARIES, GROUP, where))
    if ids is not None:
        rows = rows.filter(pl.col("scope_id").is_in(list(ids)))
    pyramids: dict[str, Pyramid] = {}
    rows = rows.sort("scope_id", "tier", "seq")
    for row in rows.iter_rows(named=True):
        pyramid = pyramids.setdefault(row["scope_id"], Pyramid())
        group = _build_group(cast("SummaryRow", row))
        if group.tier == MASTER:
            pyramid.master = group
        else:
            pyramid.tiers.setdefault(group.tier, []).append(group)
    return pyramids


def _build_group(row: SummaryRow) -> Group:
    return Group(
        tier=row["tier"],
        seq=row["seq"],
        members=tuple(row["member_ids"]),
        text=row["text"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        sealed=row["sealed"],
        stale=bool(row["stale"]),
    )
