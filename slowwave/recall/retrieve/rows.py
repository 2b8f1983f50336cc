"""The rows of one table that may answer a query: those that its conditions let through, and of these the best by full
text or by vector; and the names in a query, spelt as in memory.

Lance filters summaries and topics itself. A condition on passages or claims (workspace, times, speaker, files) is a
mask over all of them: of what an index brings the rows that pass are kept, and more are asked for until enough have.
Paths are met as tools and people write them: whole, from a workspace on, or by their last parts. Vectors are compared
one by one if they are in memory (`Tables.load_vectors`); else an index finds the nearest. Nothing that stands in a
query is ever parsed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.query import MatchQuery

from slowwave.recall.hits import GROUPS
from slowwave.recall.query import Ints, Mask, Query, Vector, normalise_path
from slowwave.recall.release.tables import RowIndex, compute_cosines, find_code
from slowwave.recall.release.view import View, normalise_name
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import (
    BY_MODEL,
    CATEGORIES,
    CLAIMS,
    GISTS,
    MESSAGES,
    PASSAGES,
    QUANTIZED_ROWS,
    TAGS,
    Table,
)
from slowwave.text.words import (
    JOINED,
    TERM,
    compute_idf,
    extract_content_words,
    split_pairs,
)
from slowwave.text.workspaces import explain_unknown_workspace, find_workspaces

Scores = npt.NDArray[np.float64]

MAX_TERMS = 256
"""Terms that are looked up together; the encoder reads about as many words."""
MORE = 1.5
"""How many more rows than should be needed are asked for, if not all of them pass: they lie unevenly."""
PROBES = 20
REFINED = 10
"""Cells of an index of vectors that a query for most rows looks into, of 4,096 rows; and how many times as many rows as
are asked for are compared whole, if the index is coarse."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a table, as Lance filters them."""

    view: View
    table: Table
    where: pc.Expression | None = None
    """None for all."""
    columns: tuple[str, ...] = ()
    """Columns that are read of each result."""

    @cached_property
    def share(self) -> float:
        """The share of an index's rows that may answer."""
        return 1.0

    def search_text(
        self,
        terms: Sequence[str],
        limit: int,
        column: str | None = None,
    ) -> pa.Table:
        """Return the best rows that hold one of some plain terms, with their BM25 as `_score`."""
        query = MatchQuery(
            " ".join(terms[:MAX_TERMS]), column or self.table.full_text or ""
        )
        return self._search(
            "_score", limit, lambda n: {"full_text_query": query, "limit": n}
        )

    def search_vectors(self, vector: Vector, limit: int) -> pa.Table:
        """Return the nearest rows, with their cosine as `_score`, by an index that is whole, or one by one. Few rows
        may lie in any cell of it, and all are looked into.
        """
        rows = self.view.count(self.table)
        nearest = {
            "column": self.table.vector,
            "q": vector,
            "metric": "dot",
            "use_index": self.view.find_broken_index(self.table) is None,
            "nprobes": PROBES if self.where is None and 2 * self.share > 1 else rows,
            "refine_factor": REFINED if rows >= QUANTIZED_ROWS else None,
        }
        best = self._search(
            "_distance", limit, lambda n: {"nearest": {**nearest, "k": n}}
        )
        # of vectors of unit length Lance returns one minus the cosine
        cosine = pa.array(1.0 - best["_distance"].to_numpy().astype(np.float64))
        return best.drop_columns("_distance").append_column("_score", cosine)

    def find_nearest(self, vector: Vector, limit: int) -> pa.Table:
        """Return the nearest groups as `search_vectors` does, by vectors in memory if they are there."""
        if (vectors := self.view.load_vectors(self.table)) is None:
            return self.search_vectors(vector, limit)
        cosines = compute_cosines(vectors, vector)
        if self.where is not None:
            passed = self.view.open_dataset(self.table).to_table(
                [], self.where, with_row_id=True
            )["_rowid"]
            cosines[~np.isin(self.view.read_row_ids(self.table), passed.to_numpy())] = (
                np.nan
            )
        best = select_top(np.nan_to_num(cosines, nan=-np.inf), limit, -np.inf)
        return self.view.take(self.table, best, self.columns).append_column(
            "_score", pa.array(cosines[best])
        )

    def _search(
        self,
        score: str,
        limit: int,
        search: Callable[[int], Mapping[str, Any]],
    ) -> pa.Table:
        """Return the best rows of a search that may answer, with their `_rowid`; if they are as frequent among its rows
        as elsewhere the first look has enough.
        """
        dataset = self.view.open_dataset(self.table)
        rows = self.view.count(self.table)
        count = limit if self.share == 1.0 else int(MORE * limit / self.share)
        columns = [*self.columns, score]
        while True:
            best = search(min(count, rows))
            rows_found = dataset.scanner(
                columns, self.where, prefilter=True, with_row_id=True, **best
            ).to_table()
            passed = self.keep_allowed(rows_found)
            if len(passed) >= limit or len(rows_found) < count:
                return passed.slice(0, limit)
            count *= 4

    def keep_allowed(self, rows: pa.Table) -> pa.Table:
        """Return the rows found that may answer: here all of them."""
        return rows


@dataclass(frozen=True, kw_only=True)
class MaskedRows(Rows):
    """Passages or claims, as a mask lets them through."""

    index: RowIndex
    allowed: Mask
    """By place."""

    @cached_property
    def share(self) -> float:
        """The share of all rows that may answer, of at least one row."""
        return max(int(self.allowed.sum()), 1) / max(len(self.allowed), 1)

    def keep_allowed(self, rows: pa.Table) -> pa.Table:
        """Return the rows found that the mask lets through."""
        return (
            rows
            if self.allowed.all()
            else rows.filter(pa.array(self.allowed[self.locate(rows)]))
        )

    def locate(self, rows: pa.Table) -> Ints:
        """Return the places of rows that were found."""
        return self.index.locate(rows["_rowid"].to_numpy())


@dataclass(frozen=True)
class Nearness:
    """Cosines of passages or claims to a vector; NaN if either has none."""

    rows: MaskedRows
    vector: Vector | None
    """The query's vector; None without an encoder."""

    @cached_property
    def _cosines(self) -> Scores | None:
        """The cosine of each row by its offset; None without a vector, or if those of the rows are not in memory."""
        if (
            self.vector is None
            or (vectors := self.rows.view.load_vectors(self.rows.table)) is None
        ):
            return None
        return compute_cosines(vectors, self.vector)

    def compute_cosines(self, places: Ints) -> Scores:
        """Return the cosines of the rows at some places."""
        offsets = self.rows.index.offsets[places]
        if self._cosines is not None:
            return self._cosines[offsets]
        if self.vector is None or not len(offsets):
            return np.full(len(offsets), np.nan)
        # each row is read once
        once, back = np.unique(offsets, return_inverse=True)
        return compute_cosines(
            self.rows.view.take(self.rows.table, once, ["vector"])["vector"],
            self.vector,
        )[back]

    def find_nearest(self, limit: int) -> Ints:
        """Return the places of the nearest rows that may answer, best first."""
        if self.vector is None:
            return np.zeros(0, dtype=np.int64)
        if self._cosines is None:
            return self.rows.locate(self.rows.search_vectors(self.vector, limit))
        cosines = self._cosines[self.rows.index.offsets]
        return select_top(
            np.where(self.rows.allowed & ~np.isnan(cosines), cosines, -np.inf),
            limit,
            -np.inf,
        )


def select_top(scores: Scores, n: int, above: float = 0.0) -> Ints:
    """Return places of the n highest scores above `above`, best first, equal ones in order of place."""
    places = np.flatnonzero(scores > above)
    if len(places) > n:  # leave out what is below the n-th best, then sort the rest
        lowest = np.partition(scores[places], len(places) - n)[len(places) - n]
        places = places[scores[places] >= lowest]
    return places[np.argsort(-scores[places], kind="stable")[:n]]


BEFORE = r"(?<![\w.-])"
AFTER = r"(?![\w/\\]|[.-]\w)"
"""Where a path begins and ends within a text: `db.py` stands in "src/db.py." and not in "mydb.py" or "db.pyc"."""
ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


@dataclass(frozen=True)
class PathVariants:
    """Some paths, as rows may write them."""

    paths: tuple[str, ...]
    workspace: str | None = None
    """Whose rows may, beside those of no workspace: in another project it is another file. None for all rows."""

    def is_valid_in(self, workspace: object) -> bool:
        """Return True if the rows of a workspace may write the paths so."""
        return self.workspace is None or workspace in (None, self.workspace)

    def is_match(self, path: str) -> bool:
        """Return True if a path is one of them, or ends in one."""
        whole = normalise_path(path)
        return any(whole == end or whole.endswith(f"/{end}") for end in self.paths)

    @property
    def pattern(self) -> re.Pattern[str]:
        """One of them within a text, with slashes of either kind."""
        patterns = (
            r"[/\\]".join(map(re.escape, path.split("/"))) for path in self.paths
        )
        return re.compile(f"{BEFORE}(?:{'|'.join(patterns)}){AFTER}")


def build_path_variants(
    files: Sequence[str], workspaces: Iterable[str]
) -> list[PathVariants]:
    """Return the paths as they are; and in the rows of each workspace what is left of absolute ones that lie in it."""
    absolute = [path for path in files if ABSOLUTE.match(path)]
    ways = [PathVariants(tuple(files))]
    for workspace in sorted(set(workspaces)) if absolute else ():
        root = normalise_path(workspace).rstrip("/")
        inside = (
            path.removeprefix(f"{root}/")
            for path in absolute
            if root and path.startswith(f"{root}/")
        )
        paths = tuple(path for path in inside if path)
        ways += [PathVariants(paths, workspace)] if paths else []
    return ways


def resolve_workspace(view: View, query: Query) -> Query:
    """Return the query with all names that the release has for its workspace."""
    if (workspace := query.workspace) is None:
        return query
    return replace(
        query, places=find_workspaces(workspace, view.workspaces) or (workspace,)
    )


def mask_allowed_passages(view: View, query: Query) -> Mask:
    """Return a mask, by position, of the passages that meet the query's conditions."""
    mask = _mask_said(view, view.passages, query)
    if query.own_sessions:
        mask &= ~view.mask_sessions(query.own_sessions)
    if query.tag is not None:
        mask &= find_tag_matches(view, query.tag)[1]
    return mask & find_file_matches(view, query.files)[1] if query.files else mask


def mask_allowed_claims(view: View, query: Query) -> Mask:
    """Return a mask, by offset, of the claims that may answer and meet the query's conditions."""
    mask = view.claims.answers & _mask_said(view, view.claims, query)
    if query.category is not None:
        mask &= view.claims.category == find_code(
            view.claims.categories, query.category
        )
    if query.min_confidence is not None:
        mask &= view.confidences >= query.min_confidence
    if query.own_sessions:  # what was said elsewhere too stays
        claims, positions = view.claims.made
        is_own = view.mask_sessions(query.own_sessions)[positions]
        mask[np.setdiff1d(claims[is_own], claims[~is_own])] = False
    if query.tag is not None:
        mask &= find_tag_matches(view, query.tag)[0]
    return mask & find_file_matches(view, query.files)[0] if query.files else mask


def _mask_said(view: View, index: RowIndex, query: Query) -> Mask:
    """Return a mask of the rows of the query's workspaces, time and speaker."""
    mask = index.mask_within(query.places, query.since, query.until)
    if query.speaker is not None:
        meant = resolve_speakers(view, query.speaker)
        mask &= np.isin(
            index.speaker, [n for n, name in enumerate(index.speakers) if name in meant]
        )
    return mask


def explain_unknown_category(view: View, category: str) -> str | None:
    """Return a message that a category is unknown, with the known ones; None for one that ships or that a claim has."""
    names = dict.fromkeys(filter(None, (*CATEGORIES, *view.claims.categories)))
    return (
        None
        if category in names
        else f"no category is called {category!r}: it is one of {', '.join(names)}"
    )


def explain_empty_filters(view: View, query: Query) -> str | None:
    """Return why conditions on workspace, category, speaker and files let nothing through; None if a row may pass.

    Raises:
        UsageError: there is no such category.
    """
    if query.places and view.workspaces.isdisjoint(query.places):
        return explain_unknown_workspace(str(query.workspace), view.workspaces)
    if query.category is not None and (
        unknown := explain_unknown_category(view, query.category)
    ):
        raise UsageError(unknown)
    if query.speaker is not None and not resolve_speakers(view, query.speaker):
        return f"nobody called {query.speaker!r} speaks in this memory"
    if query.is_narrowed and GROUPS.issuperset(query.kinds):
        return (
            "summaries and topics have no keywords"
            if query.tag
            else "summaries and topics have neither a speaker nor files"
        )
    if query.tag is not None and not any(
        mask.any() for mask in find_tag_matches(view, query.tag)
    ):
        return f"no claim and no message has the keyword or tag {query.tag!r}"
    if query.files and not any(
        mask.any() for mask in find_file_matches(view, query.files)
    ):
        return f"no claim and no message is about {' or '.join(map(repr, query.files))}"
    return None


def resolve_speakers(view: View, name: str) -> frozenset[str]:
    """Return the speakers of that name, in whatever case.

    Where nobody has just that one, those whose first names it is.
    """
    plain_name = normalise_name(name)
    names = view.speakers.items()
    exact = frozenset(speaker for speaker, plain in names if plain == plain_name)
    return exact or frozenset(
        speaker for speaker, plain in names if plain.startswith(f"{plain_name} ")
    )


def find_tag_matches(view: View, tag: str) -> tuple[Mask, Mask]:
    """Return a mask of the claims, by offset, and one of the passages, by position, that a keyword or tag matches.

    A claim has it as a keyword. A passage is of a message that has it as the keyword of a gist or as a tag, or in which
    such a claim was made. The masks are kept while the release is read.
    """
    word = tag.casefold()
    if (stored := view.tag_matches.get(word)) is not None:
        return stored
    claims = _mask_lists(view.read_column(CLAIMS, "keywords"), word)
    gists = view.read(GISTS, ["message_id", "keywords"])
    named = gists["message_id"].filter(pa.array(_mask_lists(gists["keywords"], word)))
    ids = [*named.to_pylist(), *_find_tagged(view, word)]
    passages: Mask = np.zeros(view.count(PASSAGES), dtype=bool)
    passages[view.find_positions(ids)] = True
    shown = view.claims.answers & claims
    passages[view.claims.find_claim_positions(np.flatnonzero(shown))[1]] = True
    view.tag_matches.put(word, (claims, passages))
    return claims, passages


def _mask_lists(lists: pa.ChunkedArray, word: str) -> Mask:
    """Return a mask of the lists of words that have a word, ignoring case."""
    words = lists.combine_chunks()
    flat = pc.list_flatten(words)
    same = [name for name in pc.unique(flat).to_pylist() if name.casefold() == word]
    hits = pc.is_in(flat, value_set=pa.array(same, pa.string()))
    parents = pc.list_parent_indices(words).filter(hits)
    mask: Mask = np.zeros(len(words), dtype=bool)
    mask[parents.to_numpy()] = True
    return mask


def _find_tagged(view: View, word: str) -> Iterator[str]:
    """Yield the messages with a tag, in whatever case."""
    columns = [MESSAGES.key, "blocks"]
    for batch in view.open_dataset(MESSAGES).to_batches(columns=columns):
        blocks = pc.list_flatten(batch["blocks"])
        kept = pc.fill_null(pc.equal(blocks.field("name"), TAGS), False)
        texts = blocks.field("text").filter(kept).to_pylist()
        parents = pc.list_parent_indices(batch["blocks"]).filter(kept)
        owners = batch[MESSAGES.key].take(parents).to_pylist()
        for owner, text in zip(owners, texts, strict=True):
            if word in map(str.casefold, (text or "").splitlines()):
                yield owner


def find_file_matches(view: View, files: Sequence[str]) -> tuple[Mask, Mask]:
    """Return masks of the claims, by offset, that name one of the files, and of the passages, by position.

    A passage matches if its message's text names a file, or if a matching claim was made in the message. The masks are
    kept while the release is read.
    """
    key = tuple(files)
    if (stored := view.file_matches.get(key)) is not None:
        return stored
    ways = build_path_variants(key, view.workspaces)
    claims = _mask_claims_naming(view, ways)
    passages = _mask_passages_naming(view, ways)
    index = view.claims
    layout = view.passages
    if claims.any():
        passages[index.find_claim_positions(np.flatnonzero(claims))[1]] = True
    messages = np.unique(layout.message[passages])
    passages |= np.isin(layout.message, messages[messages >= 0])
    view.file_matches.put(key, (claims, passages))
    return claims, passages


def _mask_claims_naming(view: View, ways: Sequence[PathVariants]) -> Mask:
    """Return a mask of the claims, by offset, that name one of the paths."""
    index = view.claims
    claims = np.zeros(len(index.offsets), dtype=bool)
    for way in ways:
        paths = [n for n, path in enumerate(index.paths) if way.is_match(path)]
        naming = index.naming[np.isin(index.path, paths)]
        here = _mask_variant_rows(way, index.workspace[naming], index.workspaces)
        claims[naming[here]] = True
    return claims


def _mask_passages_naming(view: View, ways: Sequence[PathVariants]) -> Mask:
    """Return a mask of the passages, by position, whose own text names one of the paths.

    Arrow first finds the texts with the last part of a path; only those are matched with the patterns.
    """
    ends = {path.rpartition("/")[2] or path for way in ways for path in way.paths}
    masks: list[list[Mask]] = [[np.zeros(0, dtype=bool)] for _ in ways]
    for batch in view.open_dataset(PASSAGES).to_batches(columns=["text"]):
        texts = batch.column("text")
        near = np.any(
            [
                pc.match_substring(texts, end).to_numpy(zero_copy_only=False)
                for end in ends
            ],
            axis=0,
        )
        near_texts = texts.filter(pa.array(near)).to_pylist()
        for pattern, of_way in zip([way.pattern for way in ways], masks, strict=True):
            named = np.zeros(len(near), dtype=bool)
            named[near] = [bool(pattern.search(text)) for text in near_texts]
            of_way.append(named)
    layout = view.passages
    passages = np.zeros(len(layout.offsets), dtype=bool)
    for way, of_way in zip(ways, masks, strict=True):
        here = _mask_variant_rows(way, layout.workspace, layout.workspaces)
        passages |= np.concatenate(of_way)[layout.offsets] & here
    return passages


def _mask_variant_rows(
    way: PathVariants, workspace: Ints, workspaces: tuple[str, ...]
) -> Mask:
    """Return a mask of the rows that may write a path in a way, by the places of their workspaces."""
    if way.workspace is None:
        return np.ones(len(workspace), dtype=bool)
    # -1: rows without a workspace.
    return np.isin(workspace, [find_code(workspaces, way.workspace), -1])


def find_passages(view: View, query: Query) -> MaskedRows:
    """Return the passages that may answer a query."""
    return MaskedRows(
        view=view,
        table=PASSAGES,
        index=view.passages,
        allowed=mask_allowed_passages(view, query),
    )


def find_claims(
    view: View, query: Query, where: pc.Expression | None = None
) -> MaskedRows:
    """Return the claims that may answer a query, by their offsets."""
    allowed = mask_allowed_claims(view, query)
    return MaskedRows(
        view=view, table=CLAIMS, index=view.claims, allowed=allowed, where=where
    )


MAX_WORDS = 64
"""Words of a query that are looked up; later ones are left out."""
ROWS_A_WORD = 1_000
"""Passages a word brings, at most: a word in more of them tells little."""
ID_START = re.compile(r"(?=\D*\d)\w{6,}")
"""A word with a digit that is long enough to be the beginning of one id alone."""
MAX_PAIRS = 16
"""Pairs of letters of a word that are looked up."""
LEAST_PAIRS = 0.5
"""Share of a word's pairs of letters from which a passage holds it."""
SIMILAR = 0.3
"""Weight of a word that replaces another spelling."""
COMPOUND = 0.5
"""Weight of a word that shares a part with a word of the query."""
SELDOM = 0.05
"""Share of a workspace's passages that name it up to which its name tells where, not what, is talked about."""
SHORTEST = 3
"""Letters of a name's form, at least."""
ROWS_A_NAME = 50
"""Passages in which it is looked at how a form is written."""


def search_words(view: View, query: Query) -> list[tuple[Ints, Scores]]:
    """Return positions and BM25 of the passages that hold a word of the query, or of which a model's detail does, word
    by word; empty for a word never said.

    A word is looked up with its other forms in the query's language, and with other accents. One that nobody said is
    looked up as the one that it is likely a spelling of, for SIMILAR of the worth. Words that the index leaves out are
    left out here too. A word's passages are remembered while the release is read.
    """
    scope = (
        query.places,
        query.since,
        query.until,
        query.speaker,
        query.files,
        query.tag,
        query.own_sessions,
        query.language,
    )
    words = query.index_terms[:MAX_WORDS]
    lookups = {word: view.words.get((word, scope)) for word in words}
    missing = [word for word in words if lookups[word] is None]
    if missing:
        look_up = WordLookup.from_query(view, query).look_up_likely
        found = view.lookups.map(look_up, missing)
        for word, lookup in zip(missing, found, strict=True):
            view.words.put((word, scope), lookup)
            lookups[word] = lookup
    return [lookup for lookup in lookups.values() if lookup is not None]


@dataclass(frozen=True)
class WordLookup:
    """Where the words of a query are looked up."""

    view: View
    language: str | None
    """The query's."""
    content: frozenset[str]
    """The words of the query that carry meaning."""
    passages: MaskedRows
    claims: MaskedRows | None
    """Claims whose detail a model wrote; None if their full text is not indexed."""

    @classmethod
    def from_query(cls, view: View, query: Query) -> "WordLookup":
        """Return the lookup of a query's words, under its conditions."""
        # A passage has neither category nor confidence.
        query = replace(query, category=None, min_confidence=None)
        detail = CLAIMS.model_text or ""
        is_indexed = view.has_full_text(CLAIMS, detail)
        return cls(
            view=view,
            language=query.language,
            content=frozenset(query.content_words),
            passages=find_passages(view, query),
            claims=find_claims(view, query, BY_MODEL) if is_indexed else None,
        )

    def look_up(self, word: str) -> tuple[Ints, Scores]:
        """Return positions and BM25 of the passages that hold a word, or that a claim cites whose detail holds it."""
        positions, scores = find_word(self.passages, word, self.language)
        if self.claims is None:
            return positions, scores
        detail = CLAIMS.model_text or ""
        rows = self.claims.search_text([word], ROWS_A_WORD, detail)
        at, cited = self.view.claims.find_claim_positions(self.claims.locate(rows))
        claim_scores = rows["_score"].to_numpy().astype(np.float64)[at]
        return (
            np.concatenate([positions, cited]),
            np.concatenate([scores, claim_scores]),
        )

    def look_up_likely(self, word: str) -> tuple[Ints, Scores]:
        """Look up a word, or if nobody said it the one that it is likely a spelling of; and compounds with it."""
        positions, scores = self._look_up_spelling(word)
        more, worth = find_in_compounds(self.passages, word, self.language)
        return np.concatenate([positions, more]), np.concatenate([scores, worth])

    def _look_up_spelling(self, word: str) -> tuple[Ints, Scores]:
        """Look up a word; if nobody said it, the one that it is likely a spelling of, for SIMILAR of the worth."""
        positions, scores = self.look_up(word)
        index = self.view.passages
        is_name = word in index.speaker_words or word in index.workspace_words
        if len(positions) or word not in self.content or is_name or JOINED.search(word):
            return positions, scores
        similar = self.view.find_similar_word(word)
        if similar is not None:
            positions, scores = self.look_up(similar)
        return positions, scores * SIMILAR


def find_word(
    passages: MaskedRows, word: str, language: str | None
) -> tuple[Ints, Scores]:
    """Return positions and BM25 of the passages that hold a word, or another form of it in the language of a query."""
    if JOINED.search(word):
        return _find_joined_word(passages, word)
    return _search_forms(passages, [word, *passages.view.find_forms(word, language)])


def find_in_compounds(
    passages: MaskedRows, word: str, language: str | None
) -> tuple[Ints, Scores]:
    """Return positions of the passages that hold a compound with a word, and COMPOUND of their BM25."""
    compounds = passages.view.find_compounds(word, language)
    if not compounds:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    positions, scores = _search_forms(passages, compounds)
    return positions, scores * COMPOUND


def _search_forms(passages: MaskedRows, forms: Sequence[str]) -> tuple[Ints, Scores]:
    """Return positions and BM25 of the passages that hold one of some words."""
    rows = passages.search_text(forms, ROWS_A_WORD)
    return passages.locate(rows), rows["_score"].to_numpy().astype(np.float64)


def _find_joined_word(passages: MaskedRows, word: str) -> tuple[Ints, Scores]:
    """Return positions and worth of the passages that hold a word of a script without spaces, or most pairs of its
    letters: dictionaries split one word in several ways, and words end in particles.

    The worth is that of BM25 in a passage of mean length: the word's rarity, times the share of its pairs.
    """
    positions, texts = passages.view.joined_texts
    if not len(positions):
        return positions, np.zeros(0)
    pairs = split_pairs(normalize("NFKC", word))[:MAX_PAIRS]
    held = np.array(
        [
            pc.match_substring(texts, pair).to_numpy(zero_copy_only=False)
            for pair in pairs
        ]
    )
    share = held.mean(axis=0)
    is_held = share >= LEAST_PAIRS
    worth = compute_idf(int(is_held.sum()), len(passages.allowed)) * share
    is_held &= passages.allowed[positions]
    best = select_top(np.where(is_held, worth, 0.0), ROWS_A_WORD)
    return positions[best], worth[best]


def correct_names(view: View, query: Query, *, full_text: bool) -> Query:
    """Return a query in which speakers and ids are written as in memory.

    A speaker's name is replaced if nobody said the word as it is spelt, or if it is what others call them for short.
    The first characters of an id become the whole of it, if nobody said them alone and only one begins so.
    """
    names = view.passages.speaker_words

    def correct(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in names:
            return match[0]
        short_for = find_short_form(view, word) if full_text else None
        whole = find_whole_id(view, word) if full_text else None
        return short_for or view.find_similar_word(word, names) or whole or match[0]

    text = TERM.sub(correct, query.text)
    return query if text == query.text else replace(query, text=text)


def find_whole_id(view: View, word: str) -> str | None:
    """Return the id that a word has the first characters of; None if the word was said itself, or belongs to no id."""
    if not ID_START.fullmatch(word) or any(
        len(rows) for rows, _ in search_words(view, Query(word, 1, ("message",)))
    ):
        return None
    return view.find_completion(word)


def find_short_form(view: View, word: str) -> str | None:
    """Return the speaker's name that a word is the beginning of ("Mel" of "Melanie"): the only one, where the word is
    mostly said in that speaker's company, with a capital, and never by that speaker, as "May" is by a Maya.
    """
    names = view.passages.speaker_words
    layout = view.passages
    alike = (
        [name for name in names if name.startswith(word)]
        if len(word) >= SHORTEST
        else []
    )
    if len(alike) != 1 or not extract_content_words(word):
        return None
    # how the word is written, and in whose company
    own = np.isin(layout.speaker, sorted(names[alike[0]]))
    for positions, _ in search_words(view, Query(word, 1, ("message",))):
        there = positions[np.isin(layout.session[positions], layout.session[own])]
        texts = view.take(PASSAGES, layout.offsets[there[:ROWS_A_NAME]], ["text"])[
            "text"
        ].to_pylist()
        by = zip(texts, own[there], strict=False)
        written = [
            (form, is_own)
            for text, is_own in by
            for form in TERM.findall(text)
            if form.lower() == word
        ]
        with_capital = (
            2 * sum(form[0].isupper() for form, _ in written) > len(written) > 1
        )
        if (
            2 * len(there) > len(positions)
            and with_capital
            and not any(is_own for _, is_own in written)
        ):
            return alike[0]
    return None


def strip_names(view: View, query: Query, *, full_text: bool) -> str:
    """Return the part of a query that is compared with messages: its text without the names of speakers and workspaces.

    Args:
        full_text: whether the index of full text of the passages may be asked; else workspaces' names stay.
    """
    text = view.passages.strip_speakers(query.text)
    lowered = query.text.lower()
    for number, folder in enumerate(view.passages.folders if full_text else ()):
        words = TERM.findall(folder.lower())
        if not words or not all(word in lowered for word in words):
            continue
        # without the name, if a content word is left
        name = r"[\W_]+".join(map(re.escape, words))
        bare, removed = re.subn(
            rf"(?<!\w){name}(?!\w)(?:['’]s\b)?", " ", text, flags=re.I
        )
        if not removed or not extract_content_words(bare):
            continue
        # if hardly any passage of the workspace has it; a word said too often for all its passages to be looked up
        # isn't a name
        here = view.passages.workspace == number
        lookups = [
            positions
            for positions, _ in search_words(
                view, Query(" ".join(words), 1, ("message",))
            )
        ]
        seldom = min(
            (int(here[positions].sum()) for positions in lookups), default=0
        ) <= SELDOM * int(here.sum())
        if seldom and all(len(positions) < ROWS_A_WORD for positions in lookups):
            text = " ".join(bare.split())
    return text
