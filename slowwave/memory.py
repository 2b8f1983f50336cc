"""`Memory`: opens a released state of the store and answers from it.

    from slowwave import Memory
    hits = Memory.open().recall("why did we leave Redis?", k=5)

Opening reads one small table; the encoder is loaded by the first query that needs it. A memory that stays open notices
new releases, and may be asked by many threads.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    get_args,
)

from pydantic import ValidationError

from slowwave.engines.encoders.protocol import Encoder
from slowwave.recall.hits import KINDS, STOPPED, Hits, Kind
from slowwave.recall.live import (
    AnswerWarnings,
    LiveRelease,
    QueryVectors,
    ReadSession,
    apply_corrections,
    find_unreleased,
)
from slowwave.recall.matter import find_floor
from slowwave.recall.query import Query, build_query, read_once, refuse_unknown_filters
from slowwave.recall.release.view import View
from slowwave.recall.search import Reranker, Search
from slowwave.recall.sessions import SessionHits
from slowwave.schemas.errors import (
    TROUBLE,
    NoRelease,
    StoreMissing,
    UsageError,
)
from slowwave.schemas.filters import (
    ClaimFilters,
    ContextOptions,
    MessageFilters,
    RecallOptions,
)
from slowwave.schemas.places import find_working_copy, name_last_part
from slowwave.schemas.settings import Settings
from slowwave.store.notes import find_talk_logs, read_written
from slowwave.store.place import check_writable
from slowwave.store.releases import Release
from slowwave.telemetry import open_memory_span
from slowwave.text.workspaces import (
    anchor_workspace,
    find_project_root,
    find_workspaces,
    refuse_near_name,
    require_workspaces,
    settle_workspace,
)

if TYPE_CHECKING:
    from slowwave.context.build import Context, Turn
    from slowwave.context.projects.intentions import Intention
    from slowwave.context.rendering import Format
    from slowwave.context.tokens import Tokenizer
    from slowwave.recall.views.browse import Claim, Theme
    from slowwave.recall.views.dead_ends import Tried
    from slowwave.recall.views.habits import Habit
    from slowwave.recall.views.recent import RecentTurn
    from slowwave.recall.views.related import Related
    from slowwave.store.notes import TalkLog
    from slowwave.store.releases import Snapshot

SESSION = "session"
"""The kind that `Memory.sessions` answers."""

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def make_async_twin(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the method as a coroutine function that runs in a thread of its own and doesn't block the event loop."""

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}"
    return twin


class Memory:
    """The released memory of one space."""

    def __init__(
        self,
        settings: Settings,
        root: Path,
        release: str | None,
        encoder: Encoder | None,
        reranker: Reranker | None = None,
    ) -> None:
        self.settings = settings
        self.root = root
        self.space = settings.space
        warnings = AnswerWarnings()
        self.reading = ReadSession(
            settings,
            root,
            live=LiveRelease(
                root=root, space=settings.space, named=release, note=warnings.add
            ),
            vectors=QueryVectors(settings.encoder, encoder, warnings.add),
            warnings=warnings,
            answer=self._answer_query,
        )
        self._reranker = reranker

    @classmethod
    def open(
        cls,
        store: Path | str | None = None,
        space: str | None = None,
        release: str | None = None,
        *,
        encoder: Encoder | None = None,
        reranker: Reranker | None = None,
        unreleased: bool = False,
    ) -> "Memory":
        """Open a space for reading.

        A space without a release opens if it has notes or talks, or if `unreleased` is set. Then `recall` and `context`
        find only notes and talks, `sessions` finds nothing, and other methods raise StoreError. The first release is
        used as soon as it exists.

        Args:
            store: the store's folder; by default the settings' one.
            space: by default the settings' one.
            release: a release's id or name (`r3`); by default the live one, also after it changes.
            encoder: used instead of the model that the release names.
            reranker: reorders the first hits.
            unreleased: open a space that has neither a release nor notes.

        Raises:
            StoreMissing: the store or space does not exist, and `unreleased` is off.
            StoreUnreadable: the store is damaged.
            NoRelease: the space has no release, or none with this name, and `unreleased` is off.
            UsageError: the vectors were made with another encoder, or the space's name is invalid.
        """
        # the settings in force, for this store
        settings = _load_settings(space)
        root = find_working_copy(store) if store is not None else settings.store
        memory = cls(
            settings=settings.model_copy(update={"store": root}),
            root=root,
            release=release,
            encoder=encoder,
            reranker=reranker,
        )
        # its release, or else its notes and talks
        try:
            memory.reading.live.view = memory.reading.live.open_view()
        except (StoreMissing, NoRelease) as missing:
            if release is None:
                if unreleased or find_talk_logs(memory.root / memory.space):
                    return memory
                missing.add_note(
                    "to note something before the first release: Memory.open(unreleased=True)"
                )
            raise
        made_with = memory.release.encoder
        if encoder is not None and made_with is not None and encoder.name != made_with:
            raise UsageError(
                f"this memory's vectors were made with {made_with!r}, not with {encoder.name!r}"
            )
        return memory

    @property
    def warnings(self) -> list[str]:
        """Problems of the last answer, and how each was handled; empty if it had none.

        If several threads ask, the last answer may be another thread's: read `Hits.warnings` or `Context.warnings`.
        """
        return list(self.reading.warnings.last)

    @property
    def release(self) -> Release:
        """The release that answers.

        Raises:
            StoreError: the store can't be reached, and could not when this was opened.
        """
        return (self.reading.live.view or self.reading.live.open_view()).release

    def get_view(self) -> View:
        """Return the view that answers now: the named release's, or else the view of the release that is live now."""
        return self.reading.live.get_current_view()

    def read_release(
        self,
        read: Callable[[View], R],
    ) -> R:
        """Call `read` with the current view and return its result.

        If forgetting deletes the release's files meanwhile, `read` is called again with the next release.

        Raises:
            StoreError: the store can't be read.
        """
        return self.reading.live.retry_superseded(lambda: read(self.get_view()))

    @property
    def has_release(self) -> bool:
        """Return True if the space has a release."""
        return self.reading.live.view is not None

    @property
    def named_release(self) -> str | None:
        """The release that was named when this was opened; None for the live one."""
        return self.reading.live.named

    @property
    def snapshot(self) -> "Snapshot":
        """The release's tables, for what recall does not do."""
        from slowwave.store.releases import Snapshot

        return Snapshot(self.root, self.space, self.release.release_id)

    def recall(
        self,
        query: str,
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        own_sessions: Iterable[str] | str = (),
        **options: Unpack[RecallOptions],
    ) -> Hits:
        """Return up to k hits that answer the query, the best first.

        A claim that was made of one message is returned with that message (`Hit.claim`), so each hit is another piece
        of evidence. Recall stops before a hit about another matter and sets `Hits.stopped`, unless the query asks
        for many messages at once ("in what order …"; `Hits.overview`). The nearest hit is always returned
        if any row passes the filters; `Hits.confident` says whether the hits are about the query. If no row
        passes, the result is empty and has a `reason`. A hit that a later claim changed has the status `superseded`,
        names its successor, and is sorted below it. Notes and talks that were written since the release are found too
        (status "not yet distilled"), unless a release was named.

        Args:
            automatic: nobody asked: omit hits that are less relevant than the floor (`recall.automatic_floor`).
            now: the time from which "yesterday" in the query is counted; by default the clock's.
            own_sessions: the transcripts' ids of sessions to omit, such as the session in which this is asked.
            options: which rows may answer, and with `everything` up to k hits, including those about other matters
                (`slowwave.schemas.filters.RecallOptions`). Only claims have a category; summaries have neither speaker
                nor files; a row without a time is in no time range.

        Raises:
            UsageError: the query has no words or is too long, k is below 1, a kind is unknown, a bound is not a date,
                or a name or path is empty.
            StoreError: the store can't be read.
        """
        return self.recall_many(
            [query],
            k,
            kinds,
            automatic=automatic,
            now=now,
            own_sessions=own_sessions,
            **options,
        )[0]

    def recall_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        own_sessions: Iterable[str] | str = (),
        **options: Unpack[RecallOptions],
    ) -> list[Hits]:
        """Return `recall` of each query, in order, from one release and with one call of the encoder.

        Raises:
            UsageError: one of the queries, or a condition, can't be carried out as put; nothing is searched.
            StoreError: the store can't be read.
        """
        if isinstance(queries, str | bytes):
            raise UsageError(
                f"queries is {queries!r:.40}; it is a list of texts: `recall` takes one"
            )
        kinds = read_once(kinds)
        options["files"] = read_once(options.get("files"))
        own = read_once(own_sessions)
        built = [
            build_query(query, k, kinds, now=now, own_sessions=own, **options)
            for query in queries
        ]
        return self._answer("recall", built, automatic)

    arecall = make_async_twin(recall)
    arecall_many = make_async_twin(recall_many)

    def sessions(
        self,
        query: str,
        k: int = 5,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        **filters: Unpack[MessageFilters],
    ) -> SessionHits:
        """Return up to k past sessions that the query is about, the likeliest first.

        Each has its probability, times, workspace, title, summary and best quotes. `confident` says whether the
        sessions are about the query. The filters of `recall`, without the category, select the messages that count.
        Messages that were taken back never count.

        Raises:
            UsageError: a query that `recall` refuses.
            StoreError: the store can't be read.
        """
        refuse_unknown_filters(filters, MessageFilters)
        (answer,) = self._answer(
            "sessions",
            [build_query(query, k, ("message",), now=now, **filters)],
            automatic,
        )
        return cast(SessionHits, answer)

    def recall_kinds(
        self,
        query: str,
        k: int,
        kinds: Sequence[str],
        **options: Unpack[RecallOptions],
    ) -> Hits | SessionHits:
        """Return the hits of `recall`, or those of `sessions` if the only kind is `session`: for commands and agents.

        Raises:
            UsageError: as these two; sessions are asked for together with another kind, or by category.
        """
        if unknown := [
            kind for kind in kinds if kind not in (*get_args(Kind), SESSION)
        ]:
            raise UsageError(
                f"there is no kind {unknown[0]!r}: {', '.join(get_args(Kind))}, or {SESSION} alone"
            )
        if SESSION not in kinds:
            return self.recall(query, k, kinds or KINDS, **options)
        if set(kinds) != {SESSION}:
            raise UsageError(
                "the kind session can't be combined with other kinds: sessions and hits have different scores"
            )
        allowed = ContextOptions.__annotations__.keys()
        for name in (
            name
            for name, value in options.items()
            if name not in allowed and value is not None
        ):
            raise UsageError(f"{name} is a property of claims; sessions have none")
        own = {
            name: value
            for name, value in options.items()
            if name in MessageFilters.__annotations__
        }
        return self.sessions(query, k, **cast(MessageFilters, own))

    def context(
        self,
        query: str,
        budget: int | None = None,
        *,
        web: Iterable[object] = (),
        conversation: Iterable["Turn"] = (),
        tokenizer: "Tokenizer | str | None" = None,
        format: "Format" = "markdown",
        automatic: bool = False,
        own_sessions: Iterable[str] | str = (),
        **options: Unpack[ContextOptions],
    ) -> "Context":
        """Return a prompt block of at most `budget` tokens: web results, memories, then the conversation.

        The memories are whole messages, the likeliest to answer first; rules and preferences that touch the question
        come before them. For a question the block stops where recall stops and does not fill the budget. For an
        order or a summary it holds a short line of each session and subject, in order of time. For a long report it
        holds messages of the likeliest sessions. Each line names its source. If the memories may be about
        something else, the block says so (`confident`). A message that does not fit is shortened to whole sentences.

        Args:
            budget: tokens, counted by `tokenizer` (a function or a name); the settings have defaults for both.
            web: results with url, title and text, the best first.
            conversation: turns (role and content, as in chat APIs), the latest last. If a short query finds nothing
                sure, it is asked again together with the last turn of the person. Memories come from other sessions.
            automatic: nobody asked: omit messages that are less relevant than the floor (`recall.automatic_floor`).
            own_sessions: the transcripts' ids of sessions to omit, such as the session in which this is asked. The
                conversation's own session is also recognised by its messages.
            options: the options of `recall` that are not about claims; with `everything` the budget is filled, also
                with messages about other matters.

        Raises:
            UsageError: `recall` refuses the query, the budget is below 0, the format or tokenizer is unknown, or a turn
                or result is malformed.
            StoreError: the store can't be read.
        """
        from slowwave.context.build import build_context

        return build_context(
            self.reading,
            query,
            budget,
            web=web,
            conversation=conversation,
            tokenizer=tokenizer,
            format=format,
            automatic=automatic,
            own_sessions=own_sessions,
            **options,
        )

    acontext = make_async_twin(context)

    def briefing(
        self,
        budget: int | None = None,
        *,
        tokenizer: "Tokenizer | str | None" = None,
        format: "Format" = "markdown",
        workspace: str | None = None,
        own_sessions: Iterable[str] | str = (),
    ) -> "Context":
        """Return a briefing for the start of a conversation.

        With a workspace it holds what stands about that project, its topics and its sessions. Notes and talks of
        persons that were written since the release are marked as not yet distilled; agents' notes are omitted. The
        bytes are the same until the release changes or something is written.

        Args:
            own_sessions: sessions to omit, as in `context`.

        Raises:
            UsageError: the budget is below 0, or the format, tokenizer or workspace is unknown.
            StoreError: the store can't be read.
        """
        from slowwave.context.projects.briefing import build_briefing

        return build_briefing(
            self.reading,
            budget,
            tokenizer=tokenizer,
            format=format,
            workspace=workspace,
            own_sessions=own_sessions,
        )

    def is_asked(
        self,
        prompt: str,
        workspace: str | None = None,
    ) -> bool:
        """Return True if a prompt asks this memory something, rather than drives the session that it is typed in ("run
        the tests"): for hooks, which get every prompt (`slowwave.recall.prompts`).

        Raises:
            UsageError: a prompt that `recall` refuses.
            StoreError: the store can't be read.
        """
        from slowwave.recall.prompts import (
            ASKS,
            MAY_ASK,
            has_subject,
            load_prompt_model,
        )

        view: View | None = None
        with suppress(NoRelease):
            view = self.get_view()
        encoder = view.release.encoder if view else None
        model = load_prompt_model(encoder=encoder)
        vector = (
            self.reading.vectors.encode_texts(encoder, [prompt]).get(prompt)
            if model.reads_vectors_of(encoder)
            else None
        )
        probability = model.compute_probability(prompt, vector)
        if probability >= ASKS or view is None:
            return probability >= ASKS
        return probability >= MAY_ASK and has_subject(view, prompt, workspace)

    def recent(
        self,
        n: int = 10,
        workspace: str | None = None,
        keyword: str | None = None,
        tag: str | None = None,
    ) -> "list[RecentTurn]":
        """Return the last turns, newest first, of the live release: `slowwave.recall.views.recent.list_recent`."""
        from slowwave.recall.views.recent import list_recent

        return self.read_release(
            lambda view: list_recent(
                view=view, n=n, workspace=workspace, keyword=keyword, tag=tag
            )
        )

    def claims(
        self,
        limit: int | None = None,
        *,
        outliers: bool = False,
        **filters: Unpack[ClaimFilters],
    ) -> "list[Claim]":
        """Return the claims that hold, newest first: `slowwave.recall.views.browse.list_claims` of the live release.

        With `superseded`, return those too that were replaced. With `outliers`, return only claims far off their
        topic, the farthest first.

        Raises:
            TypeError: an unknown filter.
            UsageError: a limit under 1, an unknown workspace or category, a confidence outside 0 to 1, or a bad date.
        """
        from slowwave.recall.views.browse import list_claims

        return self.read_release(
            lambda view: list_claims(view, limit, outliers=outliers, **filters)
        )

    def count_claims(
        self,
        *,
        outliers: bool = False,
        **filters: Unpack[ClaimFilters],
    ) -> int:
        """Return the number of claims that `claims` would list without a limit.

        Raises:
            TypeError: an unknown filter.
        """
        from slowwave.recall.views.browse import count_claims

        return self.read_release(
            lambda view: count_claims(view, outliers=outliers, **filters)
        )

    def topics(self, weeks: int = 12) -> "list[Theme]":
        """Return the live release's topics, the strongest first, with their claims a week (`list_themes`)."""
        from slowwave.recall.views.browse import list_themes

        return self.read_release(lambda view: list_themes(view, weeks))

    def related(
        self,
        subject: str,
        depth: int = 1,
        *,
        limit: int | None = None,
    ) -> "list[Related]":
        """Return the claims that hang together with one, by its id; or that speak of a file, person, project or tool,
        by its name: `slowwave.recall.views.related.find_related` of the live release.
        """
        from slowwave.recall.views.related import find_related

        return self.read_release(
            lambda view: find_related(
                view=view, subject=subject, depth=depth, limit=limit
            )
        )

    def habits(
        self,
        workspace: str | None = None,
        kind: str | None = None,
        files: Sequence[str] | str = (),
    ) -> "list[Habit]":
        """Return agents' recurring actions by kind, the most frequent first:
        `slowwave.recall.views.habits.find_habits` of the live release.

        Args:
            workspace: whose, however it is written; None for all.
            kind: `co_edit`, `sequence` or `command`; None for all.
            files: a path or several: which other files change with them, the likeliest first.
        """
        from slowwave.recall.views.habits import find_habits

        anchored = _anchor(workspace)
        paths = (files,) if isinstance(files, str) else tuple(files)
        return self.read_release(
            lambda view: find_habits(
                view=view, workspace=anchored, kind=kind, files=paths
            )
        )

    def dead_ends(self, workspace: str | None = None) -> "list[Tried]":
        """Return the dead ends of the live release, which agents tried and left, the latest first.

        Args:
            workspace: whose, however it is written; None for all.

        Raises:
            UsageError: the workspace is not known.
        """
        from slowwave.recall.views.dead_ends import list_dead_ends

        anchored = _anchor(workspace)
        return self.read_release(lambda view: list_dead_ends(view, anchored))

    def intentions(self, workspace: str | None = None) -> "list[Intention]":
        """Return the intentions of persons in the live release, with what each waits for: by day, the others last.

        Args:
            workspace: whose, however it is written; None for all.

        Raises:
            UsageError: the workspace is not known.
        """
        from slowwave.context.projects.intentions import list_intentions

        anchored = _anchor(workspace)

        def read(view: View) -> "list[Intention]":
            known = view.workspaces
            places = require_workspaces(anchored, known) if anchored else ()
            return list_intentions(view, places)

        return self.read_release(read)

    def find_named(
        self,
        intentions: "Sequence[Intention]",
        prompt: str,
    ) -> "list[Intention]":
        """Return the intentions that a prompt names, by its words and its meaning, of the live release."""
        from slowwave.context.projects.named import find_named

        encode = self.reading.vectors.encode_texts
        return self.read_release(
            lambda view: find_named(
                view=view, intentions=intentions, prompt=prompt, encode=encode
            )
        )

    def remember(
        self,
        text: str,
        *,
        workspace: str | None = None,
        of_person: bool = True,
        speaker: str | None = None,
        at: datetime | None = None,
        tags: Sequence[str] = (),
    ) -> str:
        """Write down a note that the space's next night reads; the id of its session. Secrets become placeholders.

        Before the first night: `Memory.open(unreleased=True).remember(…)`.

        Args:
            text: what to remember, in words that stand alone.
            workspace: the project it belongs to.
            of_person: whether these are the person's own words; else they are an agent's.
            speaker: who says it.
            at: when it was said, aware; now by default.
            tags: words to keep with it, shown by `slowwave show`.

        Raises:
            UsageError: it is empty or over-long, or several workspaces are called so.
            OSError: the folder can't be written to.
        """
        from slowwave.store.notes import write_note

        check_writable(self.settings, self.root)
        project = self.settle_workspace(workspace) if workspace else None
        folder = self.reading.folder
        redact = self.settings.redact
        return write_note(
            folder,
            text,
            workspace=project,
            of_person=of_person,
            speaker=speaker,
            at=at,
            tags=tags,
            redact=redact,
        )

    def correct(
        self,
        claim: str,
        text: str,
        *,
        of_person: bool = True,
        speaker: str | None = None,
        at: datetime | None = None,
    ) -> str:
        """Correct a claim with a note, and return the id of the note's session.

        Recall shows a person's correction at once. The next night makes a claim of the note, and that claim replaces
        the corrected one. `slowwave correct ID --undo` takes it back. An agent's correction only links the two claims
        until a person confirms it (`slowwave include`).

        Args:
            claim: the claim's id, or its first characters; or the id of a note that corrects it.
            text: the right statement.
            of_person: True if the words are the person's own, False if an agent wrote them.
            speaker: who says it.
            at: when it was said, with a time zone; by default now.

        Raises:
            UsageError: no claim has the id, the claim no longer holds, or the text is the same or too long.
            StoreError: the store can't be read.
            OSError: the folder can't be written to.
        """
        from slowwave.recall.views.corrected import find_claim_to_correct
        from slowwave.store.notes import format_correction, write_note

        check_writable(self.settings, self.root)
        row, corrected = find_claim_to_correct(self.get_view(), claim, text)
        return write_note(
            self.reading.folder,
            text,
            workspace=row["workspace"],
            of_person=of_person,
            speaker=speaker,
            at=at,
            redact=self.settings.redact,
            tags=[format_correction(corrected)],
        )

    def begin_conversation(
        self,
        workspace: str | None = None,
        at: datetime | None = None,
        name: str | None = None,
    ) -> "TalkLog":
        """Begin a conversation that is written message by message (`append(role, content, speaker, at, tags)`).

        The space's next night reads the messages that it has by then.

        Args:
            workspace: the project it belongs to.
            at: when it began, with a time zone; by default now.
            name: letters, digits and dashes; a conversation with this name is continued if it exists.
        """
        from slowwave.store.notes import TalkLog

        check_writable(self.settings, self.root)
        project = self.settle_workspace(workspace) if workspace else None
        return TalkLog(
            self.reading.folder,
            project,
            at,
            redact=self.settings.redact,
            name=name,
        )

    def has_workspace(self, workspace: str) -> bool:
        """Return True if the memory knows a workspace, however it is written; False if the store can't be read."""
        try:
            return bool(
                find_workspaces(anchor_workspace(workspace), self.get_view().workspaces)
            )
        except TROUBLE:
            return False

    def list_people(self) -> list[str]:
        """Return the names of all who speak, or made a claim, as they are written; none while the store is away."""
        try:
            return sorted(self.get_view().speakers)
        except TROUBLE:
            return []

    def list_workspaces(
        self,
    ) -> set[str]:
        """Return the names of all projects as they are stored; none while the store is away."""
        try:
            return self.get_view().workspaces
        except TROUBLE:
            return set()

    def list_projects(self) -> list[str]:
        """Return the shown names of all projects, sorted; none while the store is away."""
        try:
            view = self.get_view()
            return sorted({view.project_names[one] for one in view.projects.values()})
        except TROUBLE:
            return []

    def name_project(self, workspace: str | None) -> str | None:
        """Return the shown name of a project: its last part, or more if another project has the same."""
        with suppress(*TROUBLE):
            return self.get_view().name_project(workspace)
        return name_last_part(workspace) if workspace else None

    def refuse_unknown_workspace(self, workspace: str | None) -> None:
        """Refuse an unknown workspace, so that a command reports a slip of the pen.

        Nothing is refused while the store is away.

        Raises:
            UsageError: it is not known; the message names the nearest.
        """
        if workspace:
            with suppress(*TROUBLE):
                require_workspaces(
                    anchor_workspace(workspace), self._list_workspaces(self.get_view())
                )

    def settle_workspace(
        self,
        workspace: str,
        *,
        near: bool = True,
        own: bool = False,
    ) -> str:
        """Return the name under which something new of a workspace is stored.

        It is a known workspace's name if the given name means one, in any spelling or by the last part of its path.
        While the store is away, and before its first release, only the workspaces of notes and talks are known.

        Args:
            near: accept a new name that is nearly a known one.
            own: a folder is a project of its own, though it lies below a known one.

        Raises:
            UsageError: several known ones are called so, or `near` is False and the name is new and nearly a known one.
        """
        view = None
        with suppress(*TROUBLE):
            view = self.get_view()
        known = self._list_workspaces(view)
        name = settle_workspace(
            workspace,
            known,
            own=own,
        )
        if not near:
            refuse_near_name(name, known)
        return name

    def _list_workspaces(self, view: View | None) -> set[str | None]:
        """Return the workspaces of a release, and of the notes and talks written since."""
        lines = read_written(
            self.reading.folder, view.files_read if view else frozenset()
        )
        return {
            *(view.workspaces if view else ()),
            *(line.get("workspace") for line in lines),
        }

    def _answer_query(
        self,
        query: Query,
        automatic: bool,
    ) -> Hits:
        """Return the hits of a query."""
        hits: Hits = self._answer("recall", [query], automatic)[0]
        return hits

    def _answer(
        self,
        kind: Literal["recall", "sessions"],
        queries: list[Query],
        automatic: bool,
    ) -> list[Any]:
        """Return an answer to each query, each with the warnings and the cost of all.

        Raises:
            StoreError: the store can't be read.
        """
        return self.reading.live.retry_superseded(
            partial(self._answer_once, kind, queries, automatic)
        )

    def _answer_once(
        self,
        kind: Literal["recall", "sessions"],
        queries: list[Query],
        automatic: bool,
    ) -> list[Any]:
        """Return the answers to some queries from the release that is in force now, with their warnings and cost."""
        read_cost = self.reading.vectors.start_clock(kind)
        folder = self.reading.folder
        with (
            self.reading.warnings.collect_answer_warnings(),
            open_memory_span("search_memory", folder) as count,
        ):
            answers = self._search_release(kind, queries, automatic)
            if kind == "recall" and self.reading.live.named is None:
                answers = [
                    self._add_pending(*pair, automatic)
                    for pair in zip(queries, answers, strict=True)
                ]
            for answer in answers:
                answer.warnings = self.reading.warnings.answer_warnings
                answer.cost = read_cost()
            count(sum(map(len, answers)))
        return answers

    def _search_release(
        self,
        kind: str,
        queries: list[Query],
        automatic: bool,
    ) -> list[Any]:
        """Return an answer to each query from the release; before the first release empty ones, with the reason."""
        try:
            view = self.reading.live.get_current_view()
        except (StoreMissing, NoRelease) as missing:
            empty = Hits if kind == "recall" else SessionHits
            return [empty(reason=str(missing)) for _ in queries]
        encode = partial(self.reading.vectors.encode_texts, view.release.encoder)
        search = Search(
            view=view,
            settings=self.settings.recall,
            encoded=encode,
            note=self.reading.warnings.add,
            reranker=self._reranker,
        )
        if kind == "recall":
            return list(search.answer_queries(queries, automatic=automatic))
        return [search.answer_sessions(query, automatic=automatic) for query in queries]

    def _add_pending(
        self,
        query: Query,
        hits: Hits,
        automatic: bool,
    ) -> Hits:
        """Add hits in notes and talks written since the release, each before the hits that are not more relevant."""
        floor = self.settings.recall.automatic_floor if automatic else 0.0
        if (view := self.reading.live.view) is not None:
            hits = apply_corrections(
                view=view, query=query, hits=hits, space_dir=self.reading.folder
            )
        pending = find_unreleased(
            view=self.reading.live.view,
            space_dir=self.reading.folder,
            query=query,
            vectors=self.reading.vectors,
        )
        if not automatic and not query.everything:
            floor = find_floor([*pending, *hits], self.settings.recall.automatic_floor)
        there = {hit.id for hit in hits}  # a correction stands beside what it corrects
        kept = [
            hit
            for hit in pending
            if (hit.relevance or 0.0) >= floor and hit.id not in there
        ]
        if not kept:
            return hits
        merged = list(heapq.merge(kept, hits, key=lambda hit: -(hit.relevance or 0.0)))[
            : query.k
        ]
        best = max(hit.relevance or 0.0 for hit in kept)
        best = max(best, hits.relevance) if hits else best
        answer = hits.keep(merged, None if merged else hits.reason, best)
        if len(kept) < len(pending):
            answer.stopped = STOPPED
        return answer


def settle_project(
    settings: Settings,
    workspace: str | None,
    *,
    near: bool = False,
    own: bool = False,
) -> str | None:
    """Return the name under which something new of a workspace is stored in the settings' space; None if none is named.

    See `Memory.settle_workspace`.

    Args:
        near: accept a new name that is nearly a known one.
        own: a folder is a project of its own, though it lies below a known one.

    Raises:
        UsageError: several known ones are called so, or the name is new and nearly a known one.
    """
    if not workspace:
        return None
    try:
        memory = Memory.open(settings.store, settings.space, unreleased=True)
        return memory.settle_workspace(
            workspace,
            near=near,
            own=own,
        )
    except TROUBLE:  # a note is written down while the store can't be read, too
        return anchor_workspace(workspace)


def find_folder_project(settings: Settings, folder: str = ".") -> str | None:
    """Return the name under which something new is stored that is said in a folder; None if it is of no project.

    The folder is of a project if the memory knows one there, as for a hook, or if it is in a checkout of git.
    """
    path = anchor_workspace(folder)
    if find_project_root(Path(path)):
        return path
    try:
        memory = Memory.open(settings.store, settings.space, unreleased=True)
    except TROUBLE:
        return None
    return memory.settle_workspace(path) if memory.has_workspace(path) else None


def recall_spaces(
    memories: Sequence[Memory],
    query: str,
    k: int = 10,
    kinds: Iterable[str] = KINDS,
    **options: Unpack[RecallOptions],
) -> Hits:
    """Return up to k hits of several spaces, each space's in its own order, merged by relevance on each release's own
    scale; `Hit.space` says whose each is. No other call reads two spaces.

    Raises:
        UsageError: as `Memory.recall`.
    """
    kinds = read_once(kinds)
    answers = [memory.recall(query, k, kinds, **options) for memory in memories]
    named = (
        [replace(hit, space=memory.space) for hit in hits]
        for memory, hits in zip(memories, answers, strict=True)
    )
    merged = list(heapq.merge(*named, key=lambda hit: -(hit.relevance or 0.0)))[:k]
    by_space = zip((memory.space for memory in memories), answers, strict=True)
    warnings = tuple(
        f"{space}: {warning}" for space, hits in by_space for warning in hits.warnings
    )
    reason = None if merged else answers[0].reason
    best = max(hits.relevance for hits in answers)
    answer = Hits(hits=merged, reason=reason, relevance=best, warnings=warnings)
    answer.stopped = next((hits.stopped for hits in answers if hits.stopped), None)
    return answer


def _anchor(workspace: str | None) -> str | None:
    """Return the workspace as `anchor_workspace` does; None for all."""
    return None if workspace is None else anchor_workspace(workspace)


def _load_settings(space: str | None) -> Settings:
    """Return the settings in force, for this space: a space is a wall, so its name must not lead out of the store."""
    try:
        return Settings() if space is None else Settings(space=space)
    except ValidationError as refused:
        if any(error["loc"] == ("space",) for error in refused.errors()):
            raise UsageError(
                f"space is {space!r}; it is a name of a-z, 0-9, - and _, at most 63 long"
            ) from None
        raise
