"""The sessions a Claude Code file tells of: whose a record is, where they ran, what they are called."""

from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.claude_code.turns import find_parent_session
from slowwave.tasks.ingest.parsing.records import Record, Session
from slowwave.tasks.ingest.parsing.tree import Tree

Json = dict[str, object]

_TITLES = {"custom-title": (3, "customTitle"), "ai-title": (2, "aiTitle"), "summary": (1, "summary")}
"""By record type: the rank of the title (a person's own wins) and the field it stands in."""
_MAX_SUMMARIES = 1_000


class Sessions:
    """Sessions of one file, in order of appearance."""

    def __init__(self, path: Path, agent: str | None) -> None:
        """Begin a file; `agent` is the stem of a sub-agent's file, whose session is `<parent session>/<agent id>`."""
        self._agent = agent
        self._last = find_parent_session(path)
        self._numbers: dict[str, int] = {}
        self._located: set[str] = set()
        self._titles: dict[str, tuple[int, str]] = {}
        self._summaries: list[tuple[str, str]] = []

    def find_session_id(self, record: Json) -> str:
        """Return the session of a record; one that names none belongs to the session before it."""
        native = record.get("sessionId")
        if isinstance(native, str) and native:
            self._last = native
        if self._agent is None:
            return self._last
        agent = record.get("agentId")
        return f"{self._last}/{agent if isinstance(agent, str) and agent else self._agent.removeprefix('agent-')}"

    def list_session_ids(self) -> list[str]:
        """Return announced sessions, by number."""
        return list(self._numbers)

    def get_number(self, session: str) -> int:
        """Return the number of an announced session."""
        return self._numbers[session]

    def announce(self, session: str, record: Json) -> Iterator[Record]:
        """Yield the session, once, and once more when its folder is learnt: the first folder is its workspace."""
        known = session in self._numbers
        if known and session in self._located:
            return
        cwd = record.get("cwd")
        where = cwd if isinstance(cwd, str) and cwd else None
        if known and where is None:
            return
        self._numbers.setdefault(session, len(self._numbers))
        if where is not None:
            self._located.add(session)
        yield Session(
            native_id=session,
            workspace=where,
            kind="subagent" if self._agent else "chat",
            parent_id=session.rpartition("/")[0] if self._agent else None,
        )

    def note_title(self, record: Json) -> None:
        """Remember a title. A summary often tells of ANOTHER session: its leaf says of which, at the end."""
        rank, name = _TITLES[str(record["type"])]
        text, leaf = record.get(name), record.get("leafUuid")
        if not isinstance(text, str) or not text.strip():
            return
        if rank > 1:
            self._keep_best_title(self.find_session_id(record), rank, text)
        elif isinstance(leaf, str) and len(self._summaries) < _MAX_SUMMARIES:
            self._summaries.append((leaf, text))

    def collect_titles(self, tree: Tree) -> Iterator[Record]:
        """Yield the best title of each session: a person's own, else the model's, else the summary of a leaf it
        holds.
        """
        here = tree.select_present({leaf for leaf, _ in self._summaries})
        for leaf, text in self._summaries:
            if leaf in here and self._numbers:
                self._keep_best_title(next(reversed(self._numbers)), 1, text)
        for session, (_, text) in self._titles.items():
            if session in self._numbers:
                yield Session(native_id=session, title=text)

    def _keep_best_title(self, session: str, rank: int, text: str) -> None:
        if rank >= self._titles.get(session, (0, ""))[0]:
            self._titles[session] = (rank, text.strip())
