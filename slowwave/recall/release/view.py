"""What one release holds, as named arrays and indexes, each read by the first query that needs it.

A `View` never changes: a new release is a new view, and queries that run on the old one end on it. The first query
pays for what it needs (at 100,000 passages about 0.2 s for their places and vectors); later ones find it.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from os.path import basename
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler, Prefix

from slowwave.recall.hits import Kind
from slowwave.recall.query import Ints, Mask
from slowwave.recall.release.calibration import Scale, read_scales
from slowwave.recall.release.chains import WITNESSES, Chains, Floats, compute_confidences, read_chains
from slowwave.recall.release.indexes import ClaimIndex, PassageIndex, read_claim_index, read_passage_index
from slowwave.recall.release.tables import LRUCache, Tables, shared_property
from slowwave.schemas.tables import BOILERPLATE, BY_MODEL, FILES, MESSAGES, OBSERVATIONS, PASSAGES, SESSIONS
from slowwave.schemas.vocabulary import SHARED, Origin
from slowwave.store.journal import Review, read
from slowwave.store.notes import NOTES, PREFIX
from slowwave.store.releases import Release
from slowwave.text.spans import extract_spans

LOOKUPS_AT_ONCE = 4
KEPT_WORDS = 4_096
"""Words whose passages are remembered (8 kB each, at most)."""
KEPT_PATHS = 64
"""Conditions on files whose rows are remembered (one byte a passage and a claim)."""
WORD = re.compile(r"[^\W\d_]{5,}")
"""A word long enough to be told from others though a letter of it is wrong."""
ALIKE = 0.88
"""Similarity of two spellings of a word, at least ("Muhhamed" and "Muhammad": .883)."""
WHOLE_ID, SHORT_ID = 12, 6
"""Characters of a session's id that stand as it is, and that a shortened one has at least."""


class View(Tables):
    """One release, for reading by many threads."""

    def __init__(self, folder: Path, release: Release) -> None:
        super().__init__(folder, release)
        self.words: LRUCache[Hashable, tuple[Ints, npt.NDArray[np.float64]]] = LRUCache(KEPT_WORDS)
        self.file_matches: LRUCache[tuple[str, ...], tuple[Mask, Mask]] = LRUCache(KEPT_PATHS)
        """By paths: the claims and the passages that are about one of them."""
        self.lookups = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="recall-words")
        self.kept_briefings: set[str] = set()

    @shared_property
    def passages(self) -> PassageIndex:
        """Where each passage was said, when, and by whom."""
        return read_passage_index(self)

    @shared_property
    def claims(self) -> ClaimIndex:
        """Where each claim was made."""
        return read_claim_index(self, self.passages)

    @shared_property
    def has_model_claims(self) -> bool:
        """Whether a model made some of the claims."""
        return bool(self.read(OBSERVATIONS, ["observer"], BY_MODEL))

    @shared_property
    def chains(self) -> Chains:
        """The claims that changed one another, or perhaps did."""
        return read_chains(self)

    @shared_property
    def confidences(self) -> Floats:
        """How sure each claim is, by its offset."""
        return compute_confidences(self.read(OBSERVATIONS, WITNESSES), self.unconfirmed_notes)

    @shared_property
    def agent_notes(self) -> dict[str, bool]:
        """Sessions that are notes of an agent's, and whether a person has confirmed them.

        A note is known by its name and its file's folder, wherever the store is now.
        """
        named = {key: native for key, native in self.native_sessions.items() if native.startswith(PREFIX)}
        if not named:
            return {}
        rows = self.read_by_id(SESSIONS, sorted(named), ["session_id", "path"])
        noted = {key for key, row in rows.items() if Path(str(row["path"])).parent.name == NOTES}
        of_person = (pc.field("origin") == Origin.HUMAN) & pc.field("session_id").isin(sorted(noted))
        noted -= set(self.read(MESSAGES, ["session_id"], of_person)["session_id"].to_pylist())
        verdicts = {review.id: review.verdict for review in read(self.dir, Review)}
        return {key: verdicts.get(named[key]) == "confirmed" for key in sorted(noted)}

    @shared_property
    def first_copies(self) -> dict[str, str]:
        """Texts that persons type in many sessions -> the session in which each was typed first."""
        rows = self.read(BOILERPLATE, ["text", "kept"]).to_pylist()
        return {" ".join(row["text"].split()): row["kept"][0] for row in rows if row["kept"]}

    def is_copy(self, session: str, text: str) -> bool:
        """Return whether a text of a session says nothing but what was first said, word for word, in another one."""
        spans = extract_spans(text) if self.first_copies else []
        first = [self.first_copies.get(" ".join(text[span.start : span.end].split()), session) for span in spans]
        return bool(first) and session not in first

    @shared_property
    def vocabulary(self) -> dict[str, int]:
        """Words of WORD letters or more that were said -> in how many passages' texts, the most frequent first."""
        texts = map(str.lower, self.read(PASSAGES, ["text"])["text"].to_pylist())
        return dict(Counter(chain.from_iterable(map(set, map(WORD.findall, texts)))).most_common())

    def find_similar_word(self, word: str, among: Iterable[str] | None = None) -> str | None:
        """Return the word said, or one of those given, that a word which nobody said is likely a spelling of.

        The measure is Jaro and Winkler's, which counts letters in common and the same beginning.
        """
        if not WORD.fullmatch(word):
            return None
        among = self.vocabulary if among is None else among
        nearest = process.extractOne(word, list(among), scorer=JaroWinkler.similarity, score_cutoff=ALIKE)
        return None if nearest is None or word in self.vocabulary else str(nearest[0])

    @property
    def unconfirmed_notes(self) -> frozenset[str]:
        """Sessions that are notes of an agent's which no person has confirmed."""
        return frozenset(key for key, confirmed in self.agent_notes.items() if not confirmed)

    def look_up_confidences(self, claims: Sequence[str]) -> dict[str, float]:
        """Return the confidence of claims by their ids; nothing for ids that are no claim's."""
        rows = self.take(OBSERVATIONS, self.find_offsets(OBSERVATIONS, claims), [OBSERVATIONS.key, *WITNESSES])
        sure = compute_confidences(rows, self.unconfirmed_notes)
        return dict(zip(rows[OBSERVATIONS.key].to_pylist(), sure.tolist(), strict=True))

    @shared_property
    def scales(self) -> dict[Kind, Scale]:
        """What relevance is told on, by kind of memory."""
        return read_scales(self.release.calibration)

    @shared_property
    def files_read(self) -> frozenset[tuple[str, int, int]]:
        """Name, size and time of change (ns) of each file, as it was when it was read."""
        paths, *columns = self.read(FILES, ["path", "size", "mtime_ns"]).to_pydict().values()
        return frozenset(zip(map(basename, paths), *columns, strict=True))

    @shared_property
    def native_sessions(self) -> dict[str, str]:
        """Each session's id -> its transcript's own; of what another memory gave `shared:NAME`."""
        columns = self.read(SESSIONS, ["session_id", "native_id", "source"]).to_pydict().values()
        rows = zip(*columns, strict=True)
        return {key: f"{SHARED}:{native}" if source == SHARED else native for key, native, source in rows}

    @shared_property
    def session_tags(self) -> dict[str, str]:
        """Each session's own id -> its tag, which `slowwave show` takes (50 ms for 20,000)."""
        return shorten_session_ids(self.native_sessions.values())

    @shared_property
    def speakers(self) -> dict[str, str]:
        """Who speaks, or made a claim -> the name as it is compared."""
        return {name: normalise_name(name) for name in {*self.claims.speakers, *self.passages.speakers}}

    @shared_property
    def workspaces(self) -> set[str]:
        """The workspaces of passages and claims."""
        return {*self.passages.workspaces, *self.claims.workspaces}


def normalise_name(name: str) -> str:
    """Return a name as it is compared."""
    return " ".join(name.split()).casefold()


def shorten_session_ids(sessions: Iterable[str]) -> dict[str, str]:
    """Return each session's id as it stands in a block: whole where it is short, else as much as tells it from the
    others.
    """
    ids = ["", *sorted(set(sessions)), ""]
    shared = [Prefix.similarity(*pair) for pair in pairwise(ids)]  # of sorted ids neighbours share the most
    return {
        session: session if len(session) <= WHOLE_ID else session[: max(SHORT_ID, before + 1, after + 1)]
        for session, (before, after) in zip(ids[1:-1], pairwise(shared), strict=True)
    }
