"""The briefing for a session's start: facts, topics and the latest sessions, collected, ordered and packed into lines.

That of a project has what stands about it for facts, and its own sessions and topics. A session is called by as much of
its id as tells it from all others of the store.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from textwrap import shorten

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.build import Context, OpenMemory, check_block
from slowwave.context.direct import tell_hit
from slowwave.context.projects.standing import (
    EARLIEST,
    LIKELY,
    STANDING,
    collect_standing_claims,
    group_by_category,
    take_in_turn,
)
from slowwave.context.rendering import Format, Line, LineSource, Measure, Part
from slowwave.context.tokens import Tokenizer, cache_counts, resolve_tokenizer
from slowwave.recall.hits import QUOTE_CHARS
from slowwave.recall.live import read_unreleased
from slowwave.recall.query import is_of_session, parse_sessions
from slowwave.recall.release.view import View, mark_changes
from slowwave.schemas.tables import OBSERVATIONS, PERSONAL, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import EXTRACTIVE, MODEL_KEY, Role, Status, SummaryScope
from slowwave.text.pyramid import MASTER
from slowwave.text.workspaces import anchor_workspace, require_workspaces

MOST_LINES = 200
"""Lines that are looked at of each kind: the foremost ones."""

Kinds = Sequence[Sequence[Line]]
"""What a briefing is made of: facts, topics, sessions, what is not yet distilled."""


def build_briefing(
    memory: OpenMemory,
    budget: int | None = None,
    *,
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
    own_sessions: Iterable[str] | str = (),
) -> Context:
    """Return the ambient block of the release; see `Memory.briefing`."""
    # what it may have
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


def collect_briefing_kinds(memory: OpenMemory, workspace: str | None, own_sessions: Collection[str] = ()) -> Kinds:
    """Return what a briefing may have of the release and of what was written since, less what was said in
    `own_sessions`.
    """
    view = memory.get_view()
    written = read_unreleased(view, memory.root / memory.space, (Role.USER,)) if not memory._live.named else []
    workspaces = view.workspaces | {hit.workspace for hit in written}
    places = require_workspaces(workspace, workspaces) if workspace else ()
    # what persons wrote since, in short, the newest first; what ends in a question may state something before it
    newest = [hit for hit in reversed(written) if not places or hit.workspace in places]
    unreleased = [tell_hit(replace(hit, text=shorten(hit.text, QUOTE_CHARS, placeholder=" …"))) for hit in newest]
    own = view.find_session_ids(own_sessions)
    summaries = collect_topic_summaries(view, places, own), collect_session_summaries(view, places, own)
    kinds = [collect_facts(view, places, own), *summaries, unreleased]
    return [[line for line in lines if not is_of_session(line.source.session, own_sessions)] for lines in kinds]


def collect_facts(view: View, places: Collection[str] = (), own: Collection[str] = ()) -> list[Line]:
    """Return the standing claims of persons, the best borne out first; of a project also those that it goes by, each
    category in turn, then what else a person said of it, as a model understood it (without one, that is noise).
    """
    categories, confidence = ((*STANDING, *PERSONAL), LIKELY) if places else (PERSONAL, 0.0)  # the surest come first
    claims = collect_standing_claims(view, places, categories, confidence, perhaps_changed=not places)
    if not places:  # a newest fact that something like it perhaps changed is told, and marked
        return [_make_line(view, claim.topic or "", claim.text, claim.source, own) for claim in claims[:MOST_LINES]]
    others = collect_standing_claims(view, places, ("context",))
    claims = [
        *take_in_turn(group_by_category(claims)),
        *(claim for claim in others if claim.by_person and claim.observer != EXTRACTIVE),
    ]
    return [Line(claim.text, claim.source) for claim in claims[:MOST_LINES]]


def pack_briefing(kinds: Kinds, budget: int, count: Tokenizer, format: Format = "markdown") -> Context:
    """Return the block, at most `budget` tokens: of each kind in turn, as many lines as fit whole.

    Args:
        kinds: what may stand in it.
        budget: by `count`.
        count: tokens of a text.
        format: how it reads.
    """
    measure = Measure(cache_counts(count), format)
    chosen, used = list[Line](), 0
    for line in take_in_turn(kinds):
        if used + measure.count(line.text) > budget + 1:
            continue
        if (tokens := measure.count_part("briefing", arrange_by_kind(kinds, [*chosen, line]))) <= budget:
            chosen, used = [*chosen, line], tokens
    parts = (Part("briefing", tuple(arrange_by_kind(kinds, chosen))),) if chosen else ()
    return Context(measure.render(parts), measure.count_parts(parts), parts)


def arrange_by_kind(kinds: Kinds, chosen: Sequence[Line]) -> list[Line]:
    """Return the lines chosen: topics, sessions from the oldest on, facts, then the newest nearest to the end."""
    ids = set(map(id, chosen))
    facts, topics, sessions, newest = ([line for line in kind if id(line) in ids] for kind in kinds)
    return [*topics, *reversed(sessions), *facts, *reversed(newest)]


def collect_topic_summaries(view: View, places: Collection[str] = (), own: Collection[str] = ()) -> list[Line]:
    """Return for each topic a model's highest summaries that nothing stands above, the largest topics first; of a
    workspace those of which most claims were made there. Those over what only an agent noted give way to those below.
    Without a model a topic's summary is sentences of several sessions, which say little beside each other.
    """
    columns = ["summary_id", "scope_id", "tier", "title", "text", "last_at", "member_ids"]
    condition = (pc.field("scope") == SummaryScope.TOPIC) & pc.starts_with(pc.field("step_key"), MODEL_KEY)
    rows = sorted(view.read(SUMMARIES, columns, condition).to_pylist(), key=lambda row: row["tier"])
    # without those that stand on something which only an agent noted
    noted = pc.field("session_id").isin(pa.array(sorted(view.unconfirmed_notes), pa.string()))
    doubtful = set(view.read(OBSERVATIONS, ["observation_id"], noted)["observation_id"].to_pylist())
    for row in rows:
        if doubtful.intersection(row["member_ids"]):
            doubtful.add(row["summary_id"])
    rows = [row for row in rows if row["summary_id"] not in doubtful]
    covered = {key for row in rows for key in row["member_ids"]}
    tops = [row for row in rows if row["summary_id"] not in covered]
    # of the topics of which more than half the claims were made in the workspace
    if places:
        claims = view.read(OBSERVATIONS, ["topic_id", "workspace"], pc.field("status") == Status.ACTIVE).to_pylist()
        claims_of = Counter(claim["topic_id"] for claim in claims)
        claims_here = Counter(claim["topic_id"] for claim in claims if claim["workspace"] in places)
        tops = [row for row in tops if 2 * claims_here[row["scope_id"]] > claims_of[row["scope_id"]]]
    # those of the largest topics first
    sizes = dict(zip(*view.read(TOPICS, ["topic_id", "size"]).to_pydict().values(), strict=True))
    tops.sort(key=lambda row: (-sizes.get(row["scope_id"], 0), row["scope_id"], -row["tier"]))
    sources = (LineSource(at=row["last_at"], topic=row["title"] or row["scope_id"]) for row in tops)
    some = zip(tops[:MOST_LINES], sources, strict=False)
    return [_make_line(view, row["scope_id"], row["text"], source, own) for row, source in some]


def collect_session_summaries(view: View, places: Collection[str] = (), own: Collection[str] = ()) -> list[Line]:
    """Return sessions' master summaries, the latest first."""
    condition = (pc.field("scope") == SummaryScope.SESSION) & (pc.field("tier") == MASTER)
    if places:
        condition = condition & pc.field("workspace").isin(sorted(places))
    rows = view.read(SUMMARIES, ["summary_id", "scope_id", "text", "last_at"], condition).to_pylist()
    rows = [row for row in rows if row["scope_id"] not in view.unconfirmed_notes]
    rows.sort(key=lambda row: (-(row["last_at"] or EARLIEST).timestamp(), row["summary_id"]))
    lines = []
    for row in rows[:MOST_LINES]:
        if row["text"] and (session := view.native_sessions.get(row["scope_id"])):
            source = LineSource(session, at=row["last_at"], short=view.session_tags[session])
            lines.append(_make_line(view, row["scope_id"], row["text"], source, own))
    return lines


def _make_line(view: View, scope: str, text: str, source: LineSource, own: Collection[str]) -> Line:
    marked = mark_changes(view.chains, text, scope, own_sessions=own)
    return Line(" ".join(marked.split()), source, own_words=(" ".join(text.split()),) if marked != text else ())
