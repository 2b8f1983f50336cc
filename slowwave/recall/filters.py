"""Which rows a query's conditions let through: kinds, workspace, times, speakers, and files.

Paths are met as tools and people write them: whole, from a workspace on, or by their last parts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import GROUPS
from slowwave.recall.query import Ints, Mask, Query, normalise_path
from slowwave.recall.release.tables import RowIndex, find_code
from slowwave.recall.release.view import View, normalise_name
from slowwave.recall.retrieve.rows import MaskedRows
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import CATEGORIES, OBSERVATIONS, PASSAGES
from slowwave.store.workspaces import explain_unknown_workspace, find_workspaces

BEFORE, AFTER = r"(?<![\w.-])", r"(?![\w/\\]|[.-]\w)"
"""Where a path begins and ends within a text: `db.py` stands in "src/db.py." and not in "mydb.py" or "db.pyc"."""
ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


@dataclass(frozen=True)
class PathVariants:
    """Some paths, as rows may write them."""

    paths: tuple[str, ...]
    workspace: str | None = None
    """Whose rows may, beside those of no workspace: in another project it is another file. None for all rows."""

    def is_valid_in(self, workspace: object) -> bool:
        """Return whether the rows of a workspace may write them so."""
        return self.workspace is None or workspace in (None, self.workspace)

    def is_match(self, path: str) -> bool:
        """Return whether a path is one of them, or ends in one."""
        whole = normalise_path(path)
        return any(whole == end or whole.endswith(f"/{end}") for end in self.paths)

    @property
    def pattern(self) -> re.Pattern[str]:
        """One of them within a text, with slashes of either kind."""
        each = (r"[/\\]".join(map(re.escape, path.split("/"))) for path in self.paths)
        return re.compile(f"{BEFORE}(?:{'|'.join(each)}){AFTER}")


def build_path_variants(files: Sequence[str], workspaces: Iterable[str]) -> list[PathVariants]:
    """Return the paths as they are; and in the rows of each workspace what is left of absolute ones that lie in it."""
    absolute = [path for path in files if ABSOLUTE.match(path)]
    ways = [PathVariants(tuple(files))]
    for workspace in sorted(set(workspaces)) if absolute else ():
        root = normalise_path(workspace).rstrip("/")
        inside = (path.removeprefix(f"{root}/") for path in absolute if root and path.startswith(f"{root}/"))
        paths = tuple(path for path in inside if path)
        ways += [PathVariants(paths, workspace)] if paths else []
    return ways


UNKNOWN = -1
"""The place of a workspace that is not told."""


def place_query(view: View, query: Query) -> Query:
    """Return the query with all names that the release has for its workspace."""
    if (workspace := query.workspace) is None:
        return query
    return replace(query, places=find_workspaces(workspace, view.workspaces) or (workspace,))


def mask_allowed_passages(view: View, query: Query) -> Mask:
    """Return which passages the query's conditions let through, by position."""
    mask = _mask_said(view, view.passages, query)
    return mask & find_file_matches(view, query.files)[1] if query.files else mask


def mask_allowed_claims(view: View, query: Query) -> Mask:
    """Return which claims may answer and pass the query's conditions, by offset."""
    mask = view.claims.answers & _mask_said(view, view.claims, query)
    if query.category is not None:
        mask &= view.claims.category == find_code(view.claims.categories, query.category)
    if query.min_confidence is not None:
        mask &= view.confidences >= query.min_confidence
    return mask & find_file_matches(view, query.files)[0] if query.files else mask


def _mask_said(view: View, index: RowIndex, query: Query) -> Mask:
    """Return which rows were said where, when and by whom the query asks for."""
    mask = index.mask_within(query.places, query.since, query.until)
    if query.speaker is not None:
        meant = resolve_speakers(view, query.speaker)
        mask &= np.isin(index.speaker, [n for n, name in enumerate(index.speakers) if name in meant])
    return mask


def explain_unknown_category(view: View, category: str) -> str | None:
    """Return that no category is called so, and those there are; None for one that ships or that a claim has."""
    known = dict.fromkeys(filter(None, (*CATEGORIES, *view.claims.categories)))
    return None if category in known else f"no category is called {category!r}: it is one of {', '.join(known)}"


def explain_empty_filters(view: View, query: Query) -> str | None:
    """Return why conditions on workspace, category, speaker and files let nothing through; None where they may.

    Raises:
        UsageError: there is no such category.
    """
    if query.places and view.workspaces.isdisjoint(query.places):
        return explain_unknown_workspace(str(query.workspace), view.workspaces)
    if query.category is not None and (unknown := explain_unknown_category(view, query.category)):
        raise UsageError(unknown)
    if query.speaker is not None and not resolve_speakers(view, query.speaker):
        return f"nobody called {query.speaker!r} speaks in this memory"
    if query.is_narrowed and GROUPS.issuperset(query.kinds):
        return "summaries and topics have neither a speaker nor files"
    if query.files and not any(mask.any() for mask in find_file_matches(view, query.files)):
        return f"no claim and no message is about {' or '.join(map(repr, query.files))}"
    return None


def resolve_speakers(view: View, name: str) -> frozenset[str]:
    """Return the speakers of that name, in whatever case.

    Where nobody has just that one, those whose first names it is.
    """
    wanted, names = normalise_name(name), view.speakers.items()
    exact = frozenset(speaker for speaker, plain in names if plain == wanted)
    return exact or frozenset(speaker for speaker, plain in names if plain.startswith(f"{wanted} "))


def find_file_matches(view: View, files: Sequence[str]) -> tuple[Mask, Mask]:
    """Return which claims, by offset, name one of the files; and which passages, by position, are of messages whose
    text names one or in which such a claim was made. Remembered while the release is read.
    """
    key = tuple(files)
    if (stored := view.file_matches.get(key)) is not None:
        return stored
    ways, index, layout = build_path_variants(key, view.workspaces), view.claims, view.passages
    # claims that name one of the files
    claims = np.zeros(len(index.offsets), dtype=bool)
    for way in ways:
        paths = [n for n, path in enumerate(index.paths) if way.is_match(path)]
        naming = index.naming[np.isin(index.path, paths)]
        claims[naming[_mask_variant_rows(way, index.workspace[naming], index.workspaces)]] = True
    # passages whose texts do, for each way; a last part is looked for first: plain, so that Arrow does it
    ends = {path.rpartition("/")[2] or path for way in ways for path in way.paths}
    masks: list[list[Mask]] = [[np.zeros(0, dtype=bool)] for _ in ways]
    for batch in view.open_dataset(PASSAGES).to_batches(columns=["text"]):
        texts = batch.column("text")
        near = np.any([pc.match_substring(texts, end).to_numpy(zero_copy_only=False) for end in ends], axis=0)
        some = texts.filter(pa.array(near)).to_pylist()
        for pattern, of_way in zip([way.pattern for way in ways], masks, strict=True):
            named = np.zeros(len(near), dtype=bool)
            named[near] = [bool(pattern.search(text)) for text in some]
            of_way.append(named)
    # those in which such a claim was made, and all others of their messages
    by_position = (np.concatenate(of_way)[layout.offsets] for of_way in masks)
    allowed = (_mask_variant_rows(way, layout.workspace, layout.workspaces) for way in ways)
    passages: Mask = np.any([naming_way & here for naming_way, here in zip(by_position, allowed, strict=True)], axis=0)
    if claims.any():
        passages[index.find_claim_positions(np.flatnonzero(claims))[1]] = True
    messages = np.unique(layout.message[passages])
    passages |= np.isin(layout.message, messages[messages >= 0])
    view.file_matches.put(key, (claims, passages))
    return claims, passages


def _mask_variant_rows(way: PathVariants, workspace: Ints, workspaces: tuple[str, ...]) -> Mask:
    """Return which rows, by the places of their workspaces, may write a path in a way."""
    if way.workspace is None:
        return np.ones(len(workspace), dtype=bool)
    return np.isin(workspace, [find_code(workspaces, way.workspace), UNKNOWN])


def find_passages(view: View, query: Query) -> MaskedRows:
    """Return the passages that may answer a query."""
    return MaskedRows(view=view, table=PASSAGES, index=view.passages, allowed=mask_allowed_passages(view, query))


def find_claims(view: View, query: Query, where: pc.Expression | None = None) -> MaskedRows:
    """Return the claims that may answer a query, by their offsets."""
    allowed = mask_allowed_claims(view, query)
    return MaskedRows(view=view, table=OBSERVATIONS, index=view.claims, allowed=allowed, where=where)
