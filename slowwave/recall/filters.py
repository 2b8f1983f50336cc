"""Paths as tools and people write them: whole, from a workspace on, or by their last parts."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Kind
from slowwave.recall.query import Query, one_path
from slowwave.recall.release.claims import ClaimLayout
from slowwave.recall.release.passages import Layout, codes, place
from slowwave.recall.release.view import Ints, Kept, Mask, View
from slowwave.schemas.tables import OBSERVATIONS, PASSAGES

BEFORE, AFTER = r"(?<![\w.-])", r"(?![\w/\\]|[.-]\w)"
"""Where a path begins and ends within a text: `db.py` stands in "src/db.py." and not in "mydb.py" or "db.pyc"."""
ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


@dataclass(frozen=True)
class Written:
    """Some paths, as rows may write them."""

    paths: tuple[str, ...]
    workspace: str | None = None
    """Whose rows may, beside those of no workspace: in another project it is another file. None for all rows."""

    def in_rows_of(self, workspace: object) -> bool:
        """Whether the rows of a workspace may write them so."""
        return self.workspace is None or workspace in (None, self.workspace)

    def means(self, path: str) -> bool:
        """Whether a path is one of them, or ends in one."""
        whole = one_path(path)
        return any(whole == one or whole.endswith(f"/{one}") for one in self.paths)

    @property
    def pattern(self) -> re.Pattern[str]:
        """One of them within a text, with slashes of either kind."""
        each = (r"[/\\]".join(map(re.escape, one.split("/"))) for one in self.paths)
        return re.compile(f"{BEFORE}(?:{'|'.join(each)}){AFTER}")


def ways_written(files: Sequence[str], workspaces: Iterable[str]) -> list[Written]:
    """The paths as they are; and in the rows of each workspace what is left of absolute ones that lie in it."""
    absolute = [one for one in files if ABSOLUTE.match(one)]
    ways = [Written(tuple(files))]
    for workspace in sorted(set(workspaces)) if absolute else ():
        root = one_path(workspace).rstrip("/")
        inside = (one.removeprefix(f"{root}/") for one in absolute if root and one.startswith(f"{root}/"))
        paths = tuple(one for one in inside if one)
        ways += [Written(paths, workspace)] if paths else []
    return ways


def lasts(files: Iterable[str]) -> set[str]:
    """The last part of each path: a text that names one holds it."""
    return {one.rpartition("/")[2] or one for one in files}


KEPT_PATHS = 64
"""Conditions on files whose rows are remembered (one byte a passage and a claim)."""
UNKNOWN = -1
"""The place of a workspace that is not told."""
KEPT_NAMES = 256
"""Names of speakers that are remembered with those whom they mean."""
MOST_KEYS = 300
"""Rows about some files up to which Lance filters by their keys: it compares them anew for each word looked up.
Of more a mask is laid over what it finds (100,000 passages, a third of them about the file: 590 ms a query, or 85)."""


@dataclass(frozen=True)
class ClaimFacts:
    """Who made each claim, and the files that it names; by its offset."""

    speaker: Ints
    """Place in `speakers`; -1 where nobody is named."""
    speakers: tuple[str, ...]
    naming: Ints
    """Claims, one for each file that it names; those in quarantine name none."""
    path: Ints
    """Beside `naming`: place in `paths`."""
    paths: tuple[str, ...]

    @classmethod
    def of(cls, view: View) -> "ClaimFacts":
        """The release's, read by the first who asks."""
        return view.once("claim facts", lambda: cls._read(view))

    @classmethod
    def _read(cls, view: View) -> "ClaimFacts":
        none = np.zeros(0, dtype=np.int64)
        if not view.count(OBSERVATIONS):
            return cls(none, (), none, none, ())
        rows = view.dataset(OBSERVATIONS).to_table(columns=["speaker", "files", "status"])
        files = rows["files"].combine_chunks()
        parent = pc.list_parent_indices(files).to_numpy().astype(np.int64)
        path, paths = codes(pa.chunked_array([files.flatten()]))
        kept = pc.not_equal(rows["status"], "quarantined").to_numpy()[parent]
        return cls(*codes(rows["speaker"]), parent[kept], path[kept], paths)


@dataclass(frozen=True)
class About:
    """What is about some files."""

    claims: Mask
    """By offset: those that name one."""
    passages: Mask
    """By position: of messages in which such a claim was made, or whose text names one."""


def passages_allowed(view: View, query: Query) -> Mask:
    """Which passages the query's conditions let through, by position."""
    layout = Layout.of(view)
    mask = layout.allowed(query)
    if query.speaker is not None:
        mask &= _among(layout.speaker, layout.speakers, speakers_meant(view, query.speaker))
    return mask & about(view, query.files).passages if query.files else mask


def claims_allowed(view: View, query: Query) -> Mask:
    """Which claims may answer and pass the query's conditions, by offset."""
    mask = ClaimLayout.of(view).allowed(query)
    if query.speaker is not None:
        facts = ClaimFacts.of(view)
        mask &= _among(facts.speaker, facts.speakers, speakers_meant(view, query.speaker))
    return mask & about(view, query.files).claims if query.files else mask


def claim_passes(view: View, claim: Mapping[str, object], query: Query) -> bool:
    """Whether one claim (with workspace, speaker, files) was made by the speaker, and is about the files, asked for."""
    if query.speaker is not None and claim["speaker"] not in speakers_meant(view, query.speaker):
        return False
    ways = ways_to(view, query.files) if query.files else []
    here = [way for way in ways if way.in_rows_of(claim["workspace"])]
    return not ways or any(way.means(one) for one in cast(list[str], claim["files"]) for way in here)


def narrowing(view: View, kind: Kind, query: Query) -> list[pc.Expression]:
    """The conditions on speaker and files as filters of the rows of a kind; summaries have neither.

    Files that very many rows are about are no filter here: `sieve` is for these.
    """
    if kind == "summary":
        return []
    wanted: list[pc.Expression] = []
    if query.speaker is not None:
        names = pa.array(sorted(speakers_meant(view, query.speaker)), pa.string())
        wanted.append(pc.field("speaker").isin(names))
    if query.files and sieve(view, kind, query) is None:
        found = about(view, query.files)
        claims = kind == "observation"
        table = OBSERVATIONS if claims else PASSAGES
        rows = np.flatnonzero(found.claims) if claims else Layout.of(view).offsets[found.passages]
        wanted.append(pc.field(table.key).isin(view.keys(table).take(rows).combine_chunks()))
    return wanted


@dataclass(frozen=True)
class Sieve:
    """What lets those of many rows through that are about some files."""

    mask: Mask
    place: Callable[[npt.NDArray[np.uint64]], Ints]
    """Where the rows of some row ids stand in the mask."""

    def passed(self, row_ids: npt.NDArray[np.uint64]) -> Mask:
        """Which of these rows pass."""
        return self.mask[self.place(row_ids)]

    @property
    def share(self) -> float:
        """Of all rows, those that pass."""
        return float(self.mask.mean())


def sieve(view: View, kind: Kind, query: Query) -> Sieve | None:
    """What takes the place of a filter by files, where they are in more rows than Lance should compare; else None."""
    if kind == "summary" or not query.files:
        return None
    found = about(view, query.files)
    mask = found.claims if kind == "observation" else found.passages
    if np.count_nonzero(mask) <= MOST_KEYS:
        return None
    return Sieve(mask, ClaimLayout.of(view).offsets if kind == "observation" else Layout.of(view).positions)


def unmet(view: View, query: Query) -> str | None:
    """Why the conditions on speaker and files let nothing through; None where they may."""
    if query.speaker is not None and not speakers_meant(view, query.speaker):
        return f"nobody called {query.speaker!r} speaks in this memory"
    if query.narrowed and query.kinds == ("summary",):
        return "summaries have neither a speaker nor files"
    if query.files and not (about(view, query.files).claims.any() or about(view, query.files).passages.any()):
        return f"no claim and no message is about {' or '.join(map(repr, query.files))}"
    return None


def speakers_meant(view: View, name: str) -> frozenset[str]:
    """The speakers of that name, in whatever case; where nobody has just that one, those whose first names it is."""
    kept: Kept[str, frozenset[str]] = view.once("speakers meant", lambda: Kept(KEPT_NAMES))
    meant = kept.get(wanted := _plain(name))
    if meant is None:
        plain = view.once("speakers", lambda: {one: _plain(one) for one in _speakers(view)})
        exact = frozenset(one for one, said in plain.items() if said == wanted)
        meant = exact or frozenset(one for one, said in plain.items() if said.startswith(f"{wanted} "))
        kept.put(wanted, meant)
    return meant


def _speakers(view: View) -> set[str]:
    return {*ClaimFacts.of(view).speakers, *(Layout.of(view).speakers if view.count(PASSAGES) else ())}


def about(view: View, files: Sequence[str]) -> About:
    """The claims and passages that are about one of the files; remembered while the release is read."""
    kept: Kept[tuple[str, ...], About] = view.once("about files", lambda: Kept(KEPT_PATHS))
    found = kept.get(key := tuple(files))
    if found is None:
        found = _about(view, key)
        kept.put(key, found)
    return found


def ways_to(view: View, files: Sequence[str]) -> list[Written]:
    """How rows may write the paths: as they are, and what is left of an absolute one within a workspace."""
    return ways_written(files, view.once("workspaces", lambda: _workspaces(view)))


def _workspaces(view: View) -> set[str]:
    passages = Layout.of(view).workspaces if view.count(PASSAGES) else ()
    return {*passages, *(ClaimLayout.of(view).workspaces if view.count(OBSERVATIONS) else ())}


def _about(view: View, files: Sequence[str]) -> About:
    ways = ways_to(view, files)
    claims = _claims_naming(view, ways)
    if not view.count(PASSAGES):
        return About(claims, np.zeros(0, dtype=bool))
    layout = Layout.of(view)
    named = (_of(way, layout.workspace, layout.workspaces) & mask for way, mask in _naming(view, ways))
    passages: Mask = np.any([*named], axis=0)
    if claims.any():
        passages[ClaimLayout.of(view).places(np.flatnonzero(claims))[1]] = True
    messages = np.unique(layout.message[passages])
    return About(claims, passages | np.isin(layout.message, messages[messages >= 0]))


def _claims_naming(view: View, ways: Sequence[Written]) -> Mask:
    """Which claims name a file in one of the ways, by offset."""
    facts = ClaimFacts.of(view)
    claims: Mask = np.zeros(len(facts.speaker), dtype=bool)
    for way in ways if len(claims) else ():
        layout, paths = ClaimLayout.of(view), [n for n, path in enumerate(facts.paths) if way.means(path)]
        naming = facts.naming[np.isin(facts.path, paths)]
        claims[naming[_of(way, layout.workspace[naming], layout.workspaces)]] = True
    return claims


def _of(way: Written, workspace: Ints, workspaces: tuple[str, ...]) -> Mask:
    """Which rows, by the places of their workspaces, may write a path in a way."""
    if way.workspace is None:
        return np.ones(len(workspace), dtype=bool)
    return np.isin(workspace, [place(workspaces, way.workspace), UNKNOWN])


def _naming(view: View, ways: Sequence[Written]) -> list[tuple[Written, Mask]]:
    """Which passages' texts name one of the files in each way, by position."""
    patterns, ends = [way.pattern for way in ways], lasts(path for way in ways for path in way.paths)
    masks: list[list[Mask]] = [[np.zeros(0, dtype=bool)] for _ in ways]
    for batch in view.dataset(PASSAGES).to_batches(columns=["text"]):
        texts = batch.column("text")  # a last part is looked for first: plain, so that Arrow does it
        near = np.any([pc.match_substring(texts, one).to_numpy(zero_copy_only=False) for one in ends], axis=0)
        some = texts.filter(pa.array(near)).to_pylist()
        for pattern, found in zip(patterns, masks, strict=True):
            named = np.zeros(len(near), dtype=bool)
            named[near] = [bool(pattern.search(text)) for text in some]
            found.append(named)
    offsets = Layout.of(view).offsets
    return [(way, np.concatenate(found)[offsets]) for way, found in zip(ways, masks, strict=True)]


def _among(code: Ints, values: tuple[str, ...], wanted: frozenset[str]) -> Mask:
    """Which rows' values are among those wanted."""
    return np.isin(code, [n for n, value in enumerate(values) if value in wanted])


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
