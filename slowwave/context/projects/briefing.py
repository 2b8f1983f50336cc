"""The briefing at a session's start: facts, topics and the latest sessions, collected, ordered and packed into lines.

A project's briefing has the standing claims about it as facts, and its own sessions and topics. A session is named by
the shortest prefix of its id that is unique in the store.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from textwrap import shorten

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.build import Context, OpenMemory, check_block
from slowwave.context.direct import make_hit_line
from slowwave.context.projects.standing import (
    EARLIEST,
    LIKELY,
    SETTLED,
    UNHEADED,
    StandingClaim,
    collect_standing_claims,
    group_by_category,
    take_in_turn,
)
from slowwave.context.rendering import Format, Line, LineSource, Measure, Part
from slowwave.context.tokens import Tokenizer, cache_counts, resolve_tokenizer
from slowwave.recall.hits import QUOTE_CHARS
from slowwave.recall.live import read_unreleased
from slowwave.recall.query import is_of_session, parse_sessions
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View, mark_changes
from slowwave.schemas.tables import OBSERVATIONS, PERSONAL, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import (
    MODEL_KEY,
    Role,
    Status,
    SummaryScope,
)
from slowwave.text.pyramid import MASTER
from slowwave.text.workspaces import anchor_workspace, require_workspaces

MOST_LINES = 200
"""Most lines of each kind that are considered."""

Kinds = Sequence[Sequence[Line]]
"""The lines of a briefing by kind: facts, topics, sessions, and messages that are not yet distilled."""


def build_briefing(
    memory: OpenMemory,
    budget: int | None = None,
    *,
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
    own_sessions: Iterable[str] | str = (),
) -> Context:
    """Return the briefing of the release; see `Memory.briefing`."""
    settings = memory.settings.context
    room = settings.briefing_budget if budget is None else budget
    check_block(room, format)
    count = resolve_tokenizer(tokenizer, settings.tokenizer)
    read_cost = memory._vectors.start_clock("briefing", room)
    with memory._notes.collect_answer_notes():
        anchored = anchor_workspace(workspace) if workspace else None
        own = parse_sessions(own_sessions)
        collect = partial(collect_briefing_kinds, memory, anchored, own)
        kinds = memory._live.retry_superseded(collect)
        block = pack_briefing(kinds, room, count, format)
        notes = memory._notes.answer_notes
    return replace(block, notes=notes, cost=read_cost())


def collect_briefing_kinds(
    memory: OpenMemory, workspace: str | None, own_sessions: Collection[str] = ()
) -> Kinds:
    """Return the lines that a briefing may have, from the release and from messages written since, without those of
    `own_sessions`.
    """
    view = memory.get_view()
    written = (
        read_unreleased(view, memory.root / memory.space, (Role.USER,))
        if not memory._live.named
        else []
    )
    workspaces = view.workspaces | {hit.workspace for hit in written}
    places = require_workspaces(workspace, workspaces) if workspace else ()
    # messages of persons since the release, shortened, the newest first; a question may also state something
    newest = [hit for hit in reversed(written) if not places or hit.workspace in places]
    unreleased = [
        make_hit_line(
            replace(hit, text=shorten(hit.text, QUOTE_CHARS, placeholder=" …"))
        )
        for hit in newest
    ]
    own = view.find_session_ids(own_sessions)
    summaries = (
        collect_topic_summaries(view, places, own),
        collect_session_summaries(view, places, own),
    )
    kinds = [collect_facts(view, places, own), *summaries, unreleased]
    return [
        [line for line in lines if not is_of_session(line.source.session, own_sessions)]
        for lines in kinds
    ]


def collect_facts(
    view: View, places: Collection[str] = (), own: Collection[str] = ()
) -> list[Line]:
    """Return the standing claims of persons, those stated in most sessions first.

    With `places`, return the standing claims about the project, each category in turn. Then follow a person's other
    statements about it.
    """
    # without a workspace, confidence only sorts the claims
    settled = tuple(dict.fromkeys((*SETTLED, *PERSONAL)))
    categories, confidence = (settled, LIKELY) if places else (PERSONAL, 0.0)
    claims = collect_standing_claims(
        view, places, categories, confidence, perhaps_changed=not places
    )
    if not places:  # a fact that a later claim perhaps changed is shown with a mark
        return [
            _make_line(view, claim.topic or "", claim.text, claim.source, own)
            for claim in claims[:MOST_LINES]
        ]
    ranked = _put_unheaded_last(claims)
    return [Line(claim.text, claim.source) for claim in ranked[:MOST_LINES]]


def _put_unheaded_last(claims: Sequence[StandingClaim]) -> list[StandingClaim]:
    """Return the claims of each category in turn, then a person's without a heading of their own."""
    headed = [claim for claim in claims if claim.category not in UNHEADED]
    others = [claim for claim in claims if claim.category in UNHEADED]
    return [
        *take_in_turn(group_by_category(headed)),
        *(claim for claim in others if claim.by_person),
    ]


def pack_briefing(
    kinds: Kinds, budget: int, count: Tokenizer, format: Format = "markdown"
) -> Context:
    """Return the block, at most `budget` tokens: whole lines of each kind in turn, as many as fit.

    Args:
        kinds: the lines by kind.
        budget: tokens, by `count`.
        count: returns the tokens of a text.
        format: of the block.
    """
    measure = Measure(cache_counts(count), format)
    chosen = list[Line]()
    used = 0
    for line in take_in_turn(kinds):
        if used + measure.count(line.text) > budget + 1:
            continue
        tokens = measure.count_part("briefing", arrange_by_kind(kinds, [*chosen, line]))
        if tokens <= budget:
            chosen.append(line)
            used = tokens
    parts = (Part("briefing", tuple(arrange_by_kind(kinds, chosen))),) if chosen else ()
    return Context(measure.render(parts), measure.count_parts(parts), parts)


def arrange_by_kind(kinds: Kinds, chosen: Sequence[Line]) -> list[Line]:
    """Return the chosen lines: topics, sessions from the oldest on, facts, and the newest messages last."""
    ids = set(map(id, chosen))
    facts, topics, sessions, newest = (
        [line for line in kind if id(line) in ids] for kind in kinds
    )
    return [*topics, *reversed(sessions), *facts, *reversed(newest)]


def collect_topic_summaries(
    view: View, places: Collection[str] = (), own: Collection[str] = ()
) -> list[Line]:
    """Return the top summaries of each topic that a model wrote, the largest topics first.

    With `places`, only topics are returned whose claims were mostly made there. A summary that rests on an unconfirmed
    note of an agent is replaced by those below it. Extractive summaries are left out: they join sentences of several
    sessions that do not belong together.
    """
    columns = [
        "summary_id",
        "scope_id",
        "tier",
        "title",
        "text",
        "last_at",
        "member_ids",
    ]
    condition = (pc.field("scope") == SummaryScope.TOPIC) & pc.starts_with(
        pc.field("step_key"), MODEL_KEY
    )
    rows = sorted(
        view.read(SUMMARIES, columns, condition).to_pylist(),
        key=lambda row: row["tier"],
    )
    rows = _drop_doubtful_summaries(view, rows)
    covered = {key for row in rows for key in row["member_ids"]}
    tops = [row for row in rows if row["summary_id"] not in covered]
    if places:
        mostly_here = _find_topics_of(view, places)
        tops = [row for row in tops if row["scope_id"] in mostly_here]
    sizes = dict(
        zip(*view.read(TOPICS, ["topic_id", "size"]).to_pydict().values(), strict=True)
    )
    tops.sort(
        key=lambda row: (-sizes.get(row["scope_id"], 0), row["scope_id"], -row["tier"])
    )
    lines = []
    for row in tops[:MOST_LINES]:
        source = LineSource(at=row["last_at"], topic=row["title"] or row["scope_id"])
        lines.append(_make_line(view, row["scope_id"], row["text"], source, own))
    return lines


def _drop_doubtful_summaries(view: View, rows: Sequence[Row]) -> list[Row]:
    """Return the summaries (the lower tiers first) that do not rest on an agent's unconfirmed note."""
    noted = pc.field("session_id").isin(
        pa.array(sorted(view.unconfirmed_notes), pa.string())
    )
    doubtful = set(
        view.read(OBSERVATIONS, ["observation_id"], noted)["observation_id"].to_pylist()
    )
    for row in rows:
        if doubtful.intersection(row["member_ids"]):
            doubtful.add(row["summary_id"])
    return [row for row in rows if row["summary_id"] not in doubtful]


def _find_topics_of(view: View, places: Collection[str]) -> set[str]:
    """Return ids of the topics of which more than half of the active claims were made in a workspace."""
    claims = view.read(
        OBSERVATIONS, ["topic_id", "workspace"], pc.field("status") == Status.ACTIVE
    ).to_pylist()
    claims_of = Counter(claim["topic_id"] for claim in claims)
    claims_here = Counter(
        claim["topic_id"] for claim in claims if claim["workspace"] in places
    )
    return {
        topic for topic, count in claims_here.items() if 2 * count > claims_of[topic]
    }


def collect_session_summaries(
    view: View, places: Collection[str] = (), own: Collection[str] = ()
) -> list[Line]:
    """Return the master summaries of sessions, the latest first."""
    condition = (pc.field("scope") == SummaryScope.SESSION) & (
        pc.field("tier") == MASTER
    )
    if places:
        condition = condition & pc.field("workspace").isin(sorted(places))
    rows = view.read(
        SUMMARIES, ["summary_id", "scope_id", "text", "last_at"], condition
    ).to_pylist()
    rows = [row for row in rows if row["scope_id"] not in view.unconfirmed_notes]
    rows.sort(
        key=lambda row: (-(row["last_at"] or EARLIEST).timestamp(), row["summary_id"])
    )
    lines = []
    for row in rows[:MOST_LINES]:
        if row["text"] and (session := view.native_sessions.get(row["scope_id"])):
            source = LineSource(
                session, at=row["last_at"], short=view.session_tags[session]
            )
            lines.append(_make_line(view, row["scope_id"], row["text"], source, own))
    return lines


def _make_line(
    view: View, scope: str, text: str, source: LineSource, own: Collection[str]
) -> Line:
    """Return a text as a line, with notes of what changed since."""
    marked = mark_changes(view.chains, text, scope, own_sessions=own)
    return Line(
        " ".join(marked.split()),
        source,
        own_words=(" ".join(text.split()),) if marked != text else (),
    )
