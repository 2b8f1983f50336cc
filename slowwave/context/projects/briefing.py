"""The briefing at a session's start: what holds now, what is open, the last sessions, and topics that a model wrote.

What holds are the newest messages of persons that are not yet distilled, values that replaced others, rules, and other
standing claims; of a project those about it. Nothing is said twice. A session is named by
the shortest prefix of its id that is unique in the store.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pyarrow.compute as pc

from slowwave.context.build import Context, check_block
from slowwave.context.direct import make_hit_line
from slowwave.context.projects.intentions import Intention, list_intentions
from slowwave.context.projects.standing import (
    EARLIEST,
    SETTLED,
    SURE,
    SURE_BORNE_OUT,
    UNHEADED,
    StandingClaim,
    addresses_nobody,
    collect_standing_claims,
    group_by_category,
    join_by_message,
    take_in_turn,
)
from slowwave.context.rendering import (
    Format,
    Line,
    LineSource,
    Measure,
    Name,
    Part,
    Speaker,
)
from slowwave.context.tokens import Tokenizer, cache_counts, resolve_tokenizer
from slowwave.recall.hits import QUOTE_CHARS, Hit, fold_text, has_words
from slowwave.recall.live import ReadSession, find_pending_corrections, read_unreleased
from slowwave.recall.query import is_of_session, parse_sessions
from slowwave.recall.release.said import OMITTED, Omissions
from slowwave.recall.release.tables import match_any
from slowwave.recall.release.view import (
    View,
    format_change,
    is_superseded,
    mark_changes,
)
from slowwave.schemas.rows import SummaryRow
from slowwave.schemas.tables import CLAIMS, PERSONAL, SUMMARIES, TOPICS, TRUST
from slowwave.schemas.tables import SESSIONS as SESSIONS_TABLE
from slowwave.schemas.vocabulary import (
    MODEL_KEY,
    Role,
    Status,
    SummaryScope,
    Trust,
    is_own,
)
from slowwave.store.notes import PREFIX, add_subject
from slowwave.text.cells import shorten_text
from slowwave.text.foreign import cut_out, find_foreign_parts
from slowwave.text.pyramid import MASTER
from slowwave.text.sentences import Sentence, split_sentences
from slowwave.text.summarise import (
    ASKED,
    REPORTED,
    SAID,
    TOLD_PARTS,
    UNANSWERED,
    end_sentence,
    split_open_part,
    split_told_parts,
)
from slowwave.text.times.days import format_day, localise
from slowwave.text.words import SENTENCE_ENDS
from slowwave.text.workspaces import anchor_workspace, require_workspaces

MOST_LINES = 200
"""Most lines of each kind that are considered."""
SESSIONS = 2
"""Sessions that say something new, the last ones, at most. The very last has a line in any case."""
MOST_SESSIONS = 20
"""Most of the last sessions among which those are that say something new."""
ABOUT = "About:"
"""Label of a session's topic, which is its line if the briefing shows nothing else of the session."""
TOLD_ABOVE = "What is sure enough to be shown stands above."
"""The line of a session whose summary adds nothing to the lines above. The session may have said more."""
OPEN_ENDS = 3
"""Most sessions, and most things that are open, in a briefing."""
PARTS: tuple[Name, ...] = ("briefing", "open", "sessions", "topics")
"""The parts of a briefing: what holds, what is open, the last sessions, and topics."""
Kinds = Sequence[Sequence[Line]]
"""The lines of a briefing by kind, as in PARTS."""


class Collected(NamedTuple):
    """What a briefing may tell."""

    kinds: Kinds
    sessions: tuple[datetime | None, ...] = ()
    """When each session ended that it may be of, the latest first."""
    more: Sequence[int] = (0,) * len(PARTS)
    """How many lines of each kind there are beside."""


class Cut(NamedTuple):
    """The first lines of a kind."""

    lines: list[Line]
    more: int
    """How many there are beside."""


def build_briefing(
    reading: ReadSession,
    budget: int | None = None,
    *,
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
    own_sessions: Iterable[str] | str = (),
) -> Context:
    """Return the briefing of the release; see `Memory.briefing`."""
    settings = reading.settings.context
    room = settings.briefing_budget if budget is None else budget
    check_block(room, format)
    count = resolve_tokenizer(tokenizer, settings.tokenizer)
    read_cost = reading.vectors.start_clock("briefing", room)
    with reading.warnings.collect_answer_warnings():
        anchored = anchor_workspace(workspace) if workspace else None
        own = parse_sessions(own_sessions)
        collect = partial(collect_briefing, reading, anchored, own)
        collected = reading.live.retry_superseded(collect)
        block = pack_briefing(
            collected=collected, budget=room, count=count, format=format
        )
        warnings = reading.warnings.answer_warnings
    return replace(block, warnings=warnings, cost=read_cost())


def collect_briefing(
    reading: ReadSession, workspace: str | None, own_sessions: Collection[str] = ()
) -> Collected:
    """Return the lines that a briefing may have, from the release and from messages written since, without those of
    `own_sessions`.
    """
    view = reading.get_view()
    written = _read_written(reading, view)
    workspaces = view.workspaces | {hit.workspace for hit in written}
    places = require_workspaces(workspace, workspaces) if workspace else ()
    corrected = find_pending_corrections(view, reading.folder) if written else {}
    unreleased = _tell_written(
        view=view, written=written, places=places, corrected=corrected
    )
    own = view.find_session_ids(own_sessions)
    rows = read_last_sessions(view, places, own)
    released, more = _collect_released(
        view=view, places=places, own=own, corrected=corrected, rows=rows
    )
    kinds: Kinds = [[*unreleased, *released[0]], *released[1:]]
    told = [
        [line for line in lines if not is_of_session(line.source.session, own_sessions)]
        for lines in kinds
    ]
    holds, is_open, last, about = drop_repeated(told)
    last = pick_sessions(told[2] if holds or is_open else (), last)
    kinds = [holds, is_open, last, about]
    kinds = kinds if places else name_projects(view, kinds, written)
    return Collected(kinds, tuple(row["last_at"] for row in rows), more)


def _collect_released(
    view: View,
    places: Sequence[str],
    own: Collection[str],
    corrected: Collection[str],
    rows: Sequence[SummaryRow],
) -> tuple[Kinds, tuple[int, ...]]:
    """Return the lines of a release by kind, and how many of each there are beside.

    Args:
        view: the release.
        places: names of the project; empty for all.
        own: the running sessions.
        corrected: ids of claims that a message since the release corrects.
        rows: the last sessions.
    """
    facts = collect_facts(view, places, corrected)
    sessions, open_ends = collect_session_lines(
        view=view, places=places, own=own, rows=rows
    )
    every_due = collect_due(view, places, corrected)
    others, due = join_due(facts.lines, every_due[:OPEN_ENDS])
    more_due = _count_untold(every_due[OPEN_ENDS:], others)
    topics = collect_topic_summaries(view, places, own)
    kinds = [others, [*due, *open_ends.lines], sessions, topics.lines]
    return kinds, (facts.more, more_due + open_ends.more, 0, topics.more)


def _tell_written(
    view: View,
    written: Sequence[Hit],
    places: Sequence[str],
    corrected: Mapping[str, Hit],
) -> list[Line]:
    """Return the messages since the release that are of a project, or of any without `places`: the newest first.

    Args:
        view: the release.
        written: the messages, the oldest first.
        places: names of the project.
        corrected: those that correct a claim, by its id.
    """
    newest = [hit for hit in reversed(written) if not places or hit.workspace in places]
    typed = _keep_typed(newest)
    return _shorten_hits(_name_corrected(view, typed, corrected))


def _read_written(reading: ReadSession, view: View) -> list[Hit]:
    """Return messages of persons since the release, the oldest first; none of an earlier release."""
    if reading.live.named:
        return []
    return read_unreleased(view, reading.folder, (Role.USER,))


def _shorten_hits(hits: Iterable[Hit]) -> list[Line]:
    """Return messages of persons since the release as lines; a question may also state something."""
    return [make_hit_line(replace(hit, text=_shorten(hit.text))) for hit in hits]


def pick_sessions(sessions: Sequence[Line], new: Sequence[Line]) -> list[Line]:
    """Return the last session, and the last SESSIONS that say something new, the latest first.

    Args:
        sessions: a line for each session, the latest first.
        new: the lines that say something that is not told above, cut to it.
    """
    last = list(new[:SESSIONS])
    if not sessions:
        return last
    latest = sessions[0]
    if all(line.source != latest.source for line in last):
        told = replace(latest, text=TOLD_ABOVE, own_words=())
        last.insert(0, told)
    return last


def name_projects(view: View, kinds: Kinds, written: Iterable[Hit] = ()) -> Kinds:
    """Return the lines of a briefing of several projects, each with that of its session, if it has one.

    Args:
        view: the release.
        kinds: the lines.
        written: messages since the release, whose sessions it may not know.
    """
    if len(view.workspaces) < 2:
        return kinds
    rows = view.read_rows(SESSIONS_TABLE, ["native_id", "workspace"])
    places: dict[str | None, str | None] = {
        row["native_id"]: row["workspace"] for row in rows
    }
    for hit in written:
        places[hit.sources[0].session] = hit.workspace
    return [[_name_project(view, line, places) for line in lines] for lines in kinds]


def _name_project(
    view: View, line: Line, places: Mapping[str | None, str | None]
) -> Line:
    """Return a line with the project of its session, if `places` has the session."""
    project = view.name_project(places.get(line.source.session))
    source = replace(line.source, project=project)
    return replace(line, source=source)


def collect_due(
    view: View, places: Sequence[str] = (), corrected: Collection[str] = ()
) -> list[Line]:
    """Return the intentions that hold now: whose day has come, or what they wait for came up in a session lately.

    Those of claims in `corrected` are left out.
    """
    today = datetime.now().astimezone().date()
    return [
        Line(
            f"{one.told}{_format_later(view, one, places)}{one.when}",
            LineSource(one.session, at=one.said_at, by="person"),
            own_words=tuple(dict.fromkeys((one.told, one.text))),
        )
        for one in list_intentions(view, places)
        if one.id not in corrected and one.is_open(today)
    ]


def _format_later(view: View, one: Intention, places: Collection[str]) -> str:
    """Return behind a space what a later claim made of an intention, or perhaps did; "" if none did."""
    row = view.chains.claims.get(one.id)
    note = format_change(view.chains, row, one.text, places=places) if row else ""
    return f" {note}" if note else ""


def join_due(
    facts: Sequence[Line], due: Sequence[Line]
) -> tuple[list[Line], list[Line]]:
    """Return the facts and what is due, a fact that has the words of an intention in its place among what is due.

    When it is due stands behind its own words.
    """
    others = list(facts)
    joined = list[Line]()
    for line in due:
        if (at := _find_line(joined, line.own_words)) is not None:
            joined[at] = _mark_due(joined[at], line)
        elif (at := _find_line(others, line.own_words)) is not None:
            fact = others.pop(at)
            own = fact.own_words or (fact.text,)
            joined.append(_mark_due(replace(fact, own_words=own), line))
        else:
            joined.append(line)
    return others, joined


def _count_untold(due: Iterable[Line], facts: Sequence[Line]) -> int:
    """Return the number of due lines whose words stand in no fact."""
    return sum(_find_line(facts, line.own_words) is None for line in due)


def _find_line(lines: Sequence[Line], wordings: Sequence[str]) -> int | None:
    """Return the place of the first line that has one of some wordings; None if there is none."""
    for at, line in enumerate(lines):
        if any(has_words(line.text, words) for words in wordings):
            return at
    return None


def _mark_due(line: Line, due: Line) -> Line:
    """Return a line that has the words of an intention, with when it is due behind them."""
    mark = due.text.removeprefix(due.own_words[0])
    words = next((one for one in due.own_words if one in line.text), due.own_words[0])
    before, found, after = line.text.partition(words)
    text = f"{before}{found}{mark}{after}" if found else f"{before}{mark}"
    return replace(line, text=text)


def _keep_typed(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with what their writer typed of them; those that are wholly quoted or pasted are left out."""
    typed = [
        replace(hit, text=cut_out(hit.text, parts), trust=Trust.TYPED)
        if (parts := find_foreign_parts(hit.text))
        else hit
        for hit in hits
    ]
    return [hit for hit in typed if hit.text.strip()]


def _name_corrected(
    view: View, hits: Sequence[Hit], corrections: Mapping[str, Hit]
) -> list[Hit]:
    """Return the hits, a correction with the claim that it corrects."""
    rows = view.read_by_id(CLAIMS, sorted(corrections), ["summary"])
    subjects = {
        corrections[key].id: " ".join(str(row["summary"]).split())
        for key, row in rows.items()
    }
    return [
        replace(hit, text=add_subject(hit.text, subjects[hit.id]))
        if hit.id in subjects
        else hit
        for hit in hits
    ]


def drop_repeated(kinds: Iterable[Sequence[Line]]) -> Kinds:
    """Return the lines without those that an earlier line has word for word, and without such sentences."""
    told = ""
    kept = list[list[Line]]()
    for lines in kinds:
        kept.append([])
        for line in lines:
            text = _drop_sentences(line.text, told)
            is_new = all(_drop_sentences(words, told) for words in line.own_words)
            if text and is_new:
                kept[-1].append(line if text == line.text else replace(line, text=text))
                told = f"{told}\n{fold_text(line.text)}"
    return kept


def _drop_sentences(text: str, told: str) -> str:
    """Return a text without the sentences that `told` contains; empty if only a part's label would be left.

    Where the sentence with a part's label goes, the label stays. A sentence that was cut off does not stand alone. A
    bracket is kept whole.
    """
    spans = split_sentences(text)
    groups = _join_by_bracket(text, spans)
    new = [
        span
        for group in groups
        for span in group
        if not all(_is_in(told, one) for one in group)
    ]
    if len(new) == len(spans) and spans:
        return text if fold_text(text).rstrip(SENTENCE_ENDS) not in told else ""
    # with the marks behind a sentence, as "…" where it was cut
    kept: list[str] = []
    label = ""
    alone = [group[0] for group in groups if len(group) == 1]
    for span, sentence in zip(spans, _list_sentences(text), strict=True):
        found = next((one for one in TOLD_PARTS if span.text.startswith(one)), "")
        label = found or label
        is_cut_off = sentence.endswith(OMITTED) and span in alone
        if span in new and not is_cut_off:
            kept.append(sentence if found else f"{label} {sentence}".strip())
            label = ""
    return " ".join(kept)


def _is_in(told: str, span: Sentence) -> bool:
    """Return True if `told` contains a sentence, without a part's label."""
    words = fold_text(span.text).rpartition(": ")[2]
    return words.rstrip(SENTENCE_ENDS) in told


def _join_by_bracket(text: str, spans: Iterable[Sentence]) -> list[list[Sentence]]:
    """Return the sentences of a text, those that one bracket holds together with the one in which it opens."""
    groups = list[list[Sentence]]()
    for span in spans:
        before = text[: span.start]
        is_open = before.count("(") > before.count(")")
        closes = ")" in text[span.start :] or text.endswith(OMITTED)
        if groups and is_open and closes:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def collect_facts(
    view: View, places: Collection[str] = (), corrected: Collection[str] = ()
) -> Cut:
    """Return the standing claims of persons: first those that replaced another claim, then rules, then the others.

    Of each, those stated in most sessions come first, with `places` each category in turn, and a person's claims
    without a heading of their own last. Claims in `corrected` are left out.
    """
    # without a workspace, confidence only sorts the claims
    settled = tuple(dict.fromkeys((*SETTLED, *PERSONAL)))
    everyday = (*PERSONAL, "decision")
    categories, confidence = (settled, None) if places else (everyday, 0.0)
    claims = collect_standing_claims(
        view=view, places=places, categories=categories, min_confidence=confidence
    )
    claims = [
        claim
        for claim in claims
        if claim.id not in corrected
        # what was decided in a project is of that project
        and (places or claim.category in PERSONAL or claim.workspace is None)
    ]
    claims = _put_unheaded_last(claims) if places else claims
    replaced = {
        row["chain_id"] for row in view.chains.claims.values() if is_superseded(row)
    }
    claims.sort(key=lambda claim: (claim.id not in replaced, not claim.standing))
    first = claims[:MOST_LINES]
    told = set(map(_key_line, first))
    more = set(map(_key_line, claims[MOST_LINES:])) - told
    lines = [
        Line(
            f"{claim.text} {claim.code_note}".strip(),
            claim.source,
            own_words=(claim.text,) if claim.code_note else (),
            parts=claim.parts,
        )
        for claim in join_by_message(view, first, addresses_nobody)
    ]
    return Cut(lines, len(more))


def _key_line(claim: StandingClaim) -> tuple[str | None, int | str | None]:
    """Return the same for claims that are one line, as those of a message are; see `join_by_message`."""
    is_alone = claim.standing or claim.code_note or claim.source.seq is None
    return claim.source.session, claim.id if is_alone else claim.source.seq


def _put_unheaded_last(claims: Sequence[StandingClaim]) -> list[StandingClaim]:
    """Return the claims of each category in turn, then a person's without a heading of their own."""
    headed = [claim for claim in claims if claim.category not in UNHEADED]
    others = [claim for claim in claims if claim.category in UNHEADED]
    return [
        *take_in_turn(group_by_category(headed)),
        *(claim for claim in others if claim.by_person),
    ]


def pack_briefing(
    collected: Collected, budget: int, count: Tokenizer, format: Format = "markdown"
) -> Context:
    """Return the block, at most `budget` tokens: whole lines of each kind in turn, as many as fit, and how many each
    part leaves out.

    Args:
        collected: the lines by kind, and the sessions.
        budget: tokens, by `count`.
        count: returns the tokens of a text.
        format: of the block.
    """
    measure = Measure(cache_counts(count), format)
    for untold in (True, False):
        arrange = partial(arrange_by_kind, collected, untold=untold)
        parts = arrange(
            _choose_lines(
                kinds=collected.kinds, budget=budget, measure=measure, arrange=arrange
            )
        )
        if parts:
            break
    return Context(measure.render(parts), measure.count_parts(parts), parts)


def _choose_lines(
    kinds: Kinds,
    budget: int,
    measure: Measure,
    arrange: Callable[[Sequence[Line]], tuple[Part, ...]],
) -> list[Line]:
    """Return the lines, of each kind in turn, that are at most `budget` tokens as `arrange` makes parts of them."""
    chosen = list[Line]()
    used = 0
    for line in take_in_turn(kinds):
        if used + measure.count(line.text) > budget + 1:
            continue
        tokens = measure.count_parts(arrange([*chosen, line]))
        if tokens <= budget:
            chosen.append(line)
            used = tokens
    return chosen


def arrange_by_kind(
    collected: Collected, chosen: Sequence[Line], *, untold: bool = True
) -> tuple[Part, ...]:
    """Return the chosen lines as parts: what holds, what is open, the last sessions and topics; the newest first.

    A part says how many it leaves out. Without any line there are no parts.

    Args:
        collected: the lines by kind, and the sessions.
        chosen: the lines that are shown.
        untold: a part of which no line is shown says that, too.
    """
    ids = set(map(id, chosen))
    parts = []
    for name, lines, more in zip(PARTS, collected.kinds, collected.more, strict=True):
        shown = [line for line in lines if id(line) in ids]
        if name != "topics":
            shown.sort(key=lambda line: -(line.source.at or EARLIEST).timestamp())
        if shown or (untold and lines and chosen):
            every = len(collected.sessions) if name == "sessions" else len(lines) + more
            left_out = _say_left_out(name, every - len(shown), collected.sessions)
            parts.append(Part(name, tuple(shown), left_out))
    return tuple(parts)


def _say_left_out(name: Name, count: int, sessions: Sequence[datetime | None]) -> str:
    """Return the number of lines that a part leaves out, of sessions with the first day; empty if it has all.

    Args:
        name: of the part.
        count: the lines.
        sessions: when each ended, the latest first.
    """
    if count < 1:
        return ""
    first = sessions[-1] if name == "sessions" else None
    since = f", since {format_day(first)}" if first else ""
    return f"{count:,} more{since}"


def collect_topic_summaries(
    view: View, places: Collection[str] = (), own: Collection[str] = ()
) -> Cut:
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
        "first_at",
        "last_at",
        "member_ids",
        TRUST,
    ]
    condition = (pc.field("scope") == SummaryScope.TOPIC) & pc.starts_with(
        pc.field("step_key"), MODEL_KEY
    )
    rows = sorted(
        view.read_rows(SUMMARIES, columns, condition),
        key=lambda row: row["tier"],
    )
    rows = _drop_doubtful_summaries(view, rows)
    covered = {key for row in rows for key in row["member_ids"]}
    tops = [row for row in rows if row["summary_id"] not in covered]
    if places:
        mostly_here = _find_topics_of(view, places)
        tops = [row for row in tops if row["scope_id"] in mostly_here]
    _sort_by_topic(view, tops)
    lines = []
    for row in tops[:MOST_LINES]:
        source = LineSource(
            at=row["last_at"],
            began=row["first_at"],
            topic=row["title"] or row["scope_id"],
        )
        lines.append(
            _make_line(
                view=view,
                scope=row["scope_id"],
                text=row["text"],
                source=source,
                own=own,
                places=places,
            )
        )
    return Cut(lines, len(tops) - len(lines))


def _sort_by_topic(view: View, rows: list[SummaryRow]) -> None:
    """Sort summaries: those of the largest topics first, of each the highest first."""
    sizes = dict(
        zip(*view.read(TOPICS, ["topic_id", "size"]).to_pydict().values(), strict=True)
    )
    rows.sort(
        key=lambda row: (-sizes.get(row["scope_id"], 0), row["scope_id"], -row["tier"])
    )


def _drop_doubtful_summaries(
    view: View, rows: Sequence[SummaryRow]
) -> list[SummaryRow]:
    """Return the summaries (the lower tiers first) that rest neither on an agent's unconfirmed note nor on others'
    words.
    """
    noted = match_any("session_id", sorted(view.unconfirmed_notes))
    doubtful = set(view.read_column(CLAIMS, "claim_id", noted).to_pylist())
    for row in rows:
        if doubtful.intersection(row["member_ids"]) or not is_own(row[TRUST]):
            doubtful.add(row["summary_id"])
    return [row for row in rows if row["summary_id"] not in doubtful]


def _find_topics_of(view: View, places: Collection[str]) -> set[str]:
    """Return ids of the topics of which more than half of the active claims were made in a workspace."""
    claims = view.read_rows(
        CLAIMS, ["topic_id", "workspace"], pc.field("status") == Status.ACTIVE
    )
    claims_of = Counter(claim["topic_id"] for claim in claims)
    claims_here = Counter(
        claim["topic_id"] for claim in claims if claim["workspace"] in places
    )
    return {
        topic
        for topic, count in claims_here.items()
        if topic is not None and 2 * count > claims_of[topic]
    }


def collect_session_lines(
    view: View,
    places: Collection[str] = (),
    own: Collection[str] = (),
    rows: Sequence[SummaryRow] | None = None,
) -> tuple[list[Line], Cut]:
    """Return a line for each of the last sessions, and what is open at their end; the latest first.

    Args:
        view: the release.
        places: names of the project; empty for all.
        own: the running sessions.
        rows: the sessions, if they were read before (`read_last_sessions`).
    """
    sessions = list[Line]()
    open_ends = list[Line]()
    every = read_last_sessions(view, places, own) if rows is None else rows
    rows = every[:MOST_LINES]
    sources = _cite_sessions(view, rows)
    said = _collect_said(view, places, list(sources)[:MOST_SESSIONS])
    left_out = view.chains.excluded
    topics = _name_topics(view, said)
    for row in rows:
        key = row["scope_id"]
        source = sources[key]
        session = source.session or ""
        here = said.get(session, ())
        told, label, waiting = split_open_part(row["text"])
        if len(sessions) < MOST_SESSIONS:
            text = _tell_session(
                row=row, told=told, said=here, left_out=left_out.get(key)
            )
            shown = _shorten(text or topics.get(session, ""))
            sessions.append(
                _make_line(
                    view=view,
                    scope=key,
                    text=shown,
                    source=source,
                    own=own,
                    places=places,
                )
            )
        by = _name_speaker(label)
        waiting = _find_waiting(waiting, by, here)
        cited = replace(source, by=by)
        open_ends.append(
            _make_line(
                view=view,
                scope=key,
                text=waiting,
                source=cited,
                own=own,
                places=places,
            )
        )
    return sessions, _cut_open_ends(open_ends, every[MOST_LINES:])


def _cut_open_ends(lines: Iterable[Line], older: Iterable[SummaryRow]) -> Cut:
    """Return the first OPEN_ENDS lines that say something; beside are those of `older` sessions, too."""
    ends = [line for line in lines if line.text]
    more = sum(bool(split_open_part(row["text"])[2]) for row in older)
    return Cut(ends[:OPEN_ENDS], len(ends[OPEN_ENDS:]) + more)


def _shorten(text: str) -> str:
    """Return a text as one line that is not longer than a quote."""
    return shorten_text(" ".join(text.split()), QUOTE_CHARS)


def _name_speaker(label: str) -> Speaker:
    """Return the speaker of a session's last words, by the label of its open part."""
    return "person" if label == UNANSWERED else "model"


def _find_waiting(words: str, by: Speaker, said: Sequence[StandingClaim]) -> str:
    """Return the words that wait for an answer at a session's end; empty if none do.

    Args:
        words: the last words of the session.
        by: who said them.
        said: the session's standing claims, however sure.
    """
    if by == "person":
        return _drop_settled(words, said)
    return "" if _is_answered(words, said) else words


def _drop_settled(words: str, said: Iterable[StandingClaim]) -> str:
    """Return a person's last words without the sentences that surely settle something, which wait for no answer."""
    settled = {
        fold_text(claim.text).rstrip(SENTENCE_ENDS)
        for claim in said
        if claim.category in SETTLED and claim.confidence >= SURE
    }
    return " ".join(
        sentence
        for sentence in _list_sentences(words)
        if fold_text(sentence).rstrip(SENTENCE_ENDS) not in settled
    )


def _is_answered(question: str, said: Iterable[StandingClaim]) -> bool:
    """Return True if a person's claim is the answer to a question, which it then has: "mail (PDF or mail?)"."""
    return any(has_words(claim.text, question) for claim in said)


def _cite_sessions(view: View, rows: Sequence[SummaryRow]) -> dict[str, LineSource]:
    """Return the session of each summary by its id, with its first and last moment in local time."""
    keys = [row["scope_id"] for row in rows]
    offsets = view.read_by_id(SESSIONS_TABLE, keys, ["utc_offset"])
    cited: dict[str, LineSource] = {}
    for key, row in zip(keys, rows, strict=True):
        session = view.native_sessions[key]
        utc_offset = offsets[key]["utc_offset"]
        cited[key] = LineSource(
            session,
            at=localise(row["last_at"], utc_offset),
            began=localise(row["first_at"], utc_offset),
            short=view.session_tags[session],
        )
    return cited


def _collect_said(
    view: View, places: Collection[str], sessions: Sequence[str]
) -> dict[str, list[StandingClaim]]:
    """Return the standing claims of some sessions, however sure, by the session's id in its transcript."""
    of_sessions = match_any("session_id", sessions)
    ids = view.read_column(CLAIMS, "claim_id", of_sessions).to_pylist()
    claims = (
        collect_standing_claims(view, places, min_confidence=0.0, among=ids)
        if ids
        else []
    )
    said: dict[str, list[StandingClaim]] = {}
    for claim in claims:
        if claim.by_person and claim.source.session:
            said.setdefault(claim.source.session, []).append(claim)
    return said


def _name_topics(
    view: View, said: Mapping[str, Sequence[StandingClaim]]
) -> dict[str, str]:
    """Return the name of the topic of most claims of each session, of those whose topic has a name."""
    most = {
        session: Counter(one.topic for one in claims if one.topic).most_common(1)
        for session, claims in said.items()
    }
    ids = {str(topic) for found in most.values() for topic, _ in found}
    rows = view.read_by_id(TOPICS, sorted(ids), ["name"])
    names = {key: str(row["name"]) for key, row in rows.items()}
    return {
        session: f"{ABOUT} {names[topic]}"
        for session, found in most.items()
        for topic, _ in found
        if topic and names.get(topic)
    }


def _tell_session(
    row: SummaryRow,
    told: str,
    said: Sequence[StandingClaim],
    left_out: Omissions | None,
) -> str:
    """Return the text of a session: a model's summary, or what was asked, settled and reported.

    A person's claims that likelier hold beyond their session than not are the part that was settled. Sentences that may
    be another person's words, below a quotation, are left out of the part that was asked. The text is empty if no part
    is left.

    Args:
        row: the session's summary.
        told: its text without what is open.
        said: the session's standing claims, however sure.
        left_out: of its claims those that a person left out.
    """
    parts = split_told_parts(told)
    if parts is None or row["step_key"].startswith(MODEL_KEY):
        return told
    doubtful = [fold_text(one.text) for one in said if not one.may_instruct]
    for words in left_out.hidden if left_out else ():
        doubtful += [fold_text(one).rstrip(SENTENCE_ENDS) for one in words]
    asked = " ".join(
        sentence
        for sentence in _list_sentences(parts.get(ASKED, ""))
        if fold_text(sentence).rstrip(SENTENCE_ENDS) not in doubtful
    )
    likely = [
        one.text
        for one in sorted(said, key=lambda one: one.source.seq or 0)
        if one.may_instruct
        and one.confidence >= SURE_BORNE_OUT
        and fold_text(one.text) not in fold_text(asked)
    ]
    shown = {
        ASKED: asked,
        SAID: " ".join(map(end_sentence, likely)),
        REPORTED: parts.get(REPORTED, ""),
    }
    return " ".join(f"{label} {text}" for label, text in shown.items() if text)


def _list_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with the marks behind it."""
    spans = split_sentences(text)
    ends = pairwise([*(span.start for span in spans), len(text)])
    return [text[start:end].strip() for start, end in ends]


def read_last_sessions(
    view: View, places: Collection[str], own: Collection[str]
) -> list[SummaryRow]:
    """Return the master summaries of sessions that are not among the running ones `own`, the latest first.

    A note is a fact, and no session.
    """
    condition = (pc.field("scope") == SummaryScope.SESSION) & (
        pc.field("tier") == MASTER
    )
    if places:
        condition = condition & pc.field("workspace").isin(sorted(places))
    rows = view.read_rows(
        SUMMARIES,
        ["summary_id", "scope_id", "text", "first_at", "last_at", "step_key", TRUST],
        condition,
    )
    rows = [row for row in rows if is_own(row[TRUST])]
    left_out = {*view.unconfirmed_notes, *own}
    rows = [row for row in rows if row["text"] and row["scope_id"] not in left_out]
    rows = [row for row in rows if not _is_note(view, row["scope_id"])]
    rows.sort(
        key=lambda row: (-(row["last_at"] or EARLIEST).timestamp(), row["summary_id"])
    )
    return rows


def _is_note(view: View, session: str) -> bool:
    """Return True for a note's session, and for one without a name."""
    name = view.native_sessions.get(session, PREFIX)
    return name.startswith(PREFIX)


def _make_line(
    view: View,
    scope: str,
    text: str,
    source: LineSource,
    own: Collection[str],
    places: Collection[str],
) -> Line:
    """Return a text as a line, with notes of what changed since, as a briefing of some workspaces may show it."""
    marked = mark_changes(view.chains, text, scope, own_sessions=own, places=places)
    return Line(
        " ".join(marked.split()),
        source,
        own_words=(" ".join(text.split()),) if marked != text else (),
    )
