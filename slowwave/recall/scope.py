"""Which rows a query's conditions let through; above all who spoke, and which files it is about.

Workspace, time and category stand in each row as they are asked for. Names and paths are looked up in what the release
holds first, so that each becomes a list of known values: nothing that stands in a query is ever parsed. Claims' names
and files are read once a release; passages' texts once for each of the paths asked for last.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.observations import OBSERVATIONS
from schemas.passages import PASSAGES
from slowwave.recall.claim_layout import ClaimLayout
from slowwave.recall.hits import Kind
from slowwave.recall.layout import Layout, codes
from slowwave.recall.query import Query, one_path
from slowwave.recall.view import Ints, Kept, Mask, View

KEPT_PATHS = 64
"""Conditions on files whose rows are remembered (one byte a passage and a claim)."""
BEFORE, AFTER = r"(?<![\w.-])", r"(?![\w/\\]|[.-]\w)"
"""Where a path begins and ends within a text: `db.py` stands in "src/db.py." and not in "mydb.py" or "db.pyc"."""


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
    """Whether one claim (columns speaker and files) was made by the speaker, and is about the files, asked for."""
    if query.speaker is not None and claim["speaker"] not in speakers_meant(view, query.speaker):
        return False
    return not query.files or any(is_file(one, query.files) for one in cast(list[str], claim["files"]))


def narrowing(view: View, kind: Kind, query: Query) -> list[pc.Expression]:
    """The conditions on speaker and files as filters of the rows of a kind; summaries have neither."""
    if kind == "summary":
        return []
    wanted: list[pc.Expression] = []
    if query.speaker is not None:
        names = pa.array(sorted(speakers_meant(view, query.speaker)), pa.string())
        wanted.append(pc.field("speaker").isin(names))
    if query.files:
        found = about(view, query.files)
        claims = kind == "observation"
        table = OBSERVATIONS if claims else PASSAGES
        rows = np.flatnonzero(found.claims) if claims else Layout.of(view).offsets[found.passages]
        wanted.append(pc.field(table.key).isin(view.keys(table).take(rows).combine_chunks()))
    return wanted


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
    known = {*ClaimFacts.of(view).speakers, *(Layout.of(view).speakers if view.count(PASSAGES) else ())}
    plain = {one: _plain(one) for one in known}
    wanted = _plain(name)
    exact = frozenset(one for one, said in plain.items() if said == wanted)
    return exact or frozenset(one for one, said in plain.items() if said.startswith(f"{wanted} "))


def about(view: View, files: Sequence[str]) -> About:
    """The claims and passages that are about one of the files; remembered while the release is read."""
    kept: Kept[tuple[str, ...], About] = view.once("about files", lambda: Kept(KEPT_PATHS))
    found = kept.get(key := tuple(files))
    if found is None:
        found = _about(view, key)
        kept.put(key, found)
    return found


def is_file(path: str, files: Sequence[str]) -> bool:
    """Whether a path is one of the files, or ends in one."""
    whole = one_path(path)
    return any(whole == one or whole.endswith(f"/{one}") for one in files)


def _about(view: View, files: Sequence[str]) -> About:
    facts = ClaimFacts.of(view)
    claims: Mask = np.zeros(len(facts.speaker), dtype=bool)
    claims[facts.naming[np.isin(facts.path, [n for n, path in enumerate(facts.paths) if is_file(path, files)])]] = True
    if not view.count(PASSAGES):
        return About(claims, np.zeros(0, dtype=bool))
    layout = Layout.of(view)
    passages = _naming(view, files)[layout.offsets]
    if claims.any():
        passages[ClaimLayout.of(view).places(np.flatnonzero(claims))[1]] = True
    messages = np.unique(layout.message[passages])
    return About(claims, passages | np.isin(layout.message, messages[messages >= 0]))


def _naming(view: View, files: Sequence[str]) -> Mask:
    """Which passages' texts name one of the files, by offset."""
    written = (r"[/\\]".join(map(re.escape, one.split("/"))) for one in files)
    pattern = re.compile(f"{BEFORE}(?:{'|'.join(written)}){AFTER}")
    lasts = {one.rpartition("/")[2] or one for one in files}  # looked for first: plain, so that Arrow does it
    masks: list[Mask] = [np.zeros(0, dtype=bool)]
    for batch in view.dataset(PASSAGES).to_batches(columns=["text"]):
        texts = batch.column("text")
        near = np.any([pc.match_substring(texts, one).to_numpy(zero_copy_only=False) for one in lasts], axis=0)
        near[near] = [bool(pattern.search(text)) for text in texts.filter(pa.array(near)).to_pylist()]
        masks.append(near)
    return np.concatenate(masks)


def _among(code: Ints, values: tuple[str, ...], wanted: frozenset[str]) -> Mask:
    """Which rows' values are among those wanted."""
    return np.isin(code, [n for n, value in enumerate(values) if value in wanted])


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
