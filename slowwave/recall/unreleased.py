"""What `remember` and `talk` wrote since the release that answers: found as it is, until a night distils it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from slowwave.recall.filters import build_path_variants
from slowwave.recall.hits import QUOTE_CHARS, Hit, Source
from slowwave.recall.query import Query
from slowwave.recall.release.view import View, normalise_name
from slowwave.recall.retrieve.encoding import KEPT_QUERIES, QueryVectors
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import Role, Status
from slowwave.store.notes import read_written
from slowwave.store.workspaces import find_workspaces
from slowwave.text.words import compute_word_share


def find_unreleased(view: View | None, space_dir: Path, query: Query, vectors: QueryVectors) -> list[Hit]:
    """Return what of some relevance was written since the release (None: before the first), the most relevant first.

    Relevance is on the release's scale, as that of its hits; where there is none it is the share of the query's words.
    """
    hits = [] if query.is_of_claims or "message" not in query.kinds else read_unreleased(view, space_dir)
    hits = _filter_hits(hits, query)[-KEPT_QUERIES // 2 :]  # whose vectors are kept for the next query
    share = relevance = np.array([compute_word_share(query.content_words, hit.text) for hit in hits])
    scale = view.calibration.scales.get("message") if view and view.calibration else None
    texts = [query.text, *(hit.text for hit in hits)] if scale and hits else []
    if scale and view and (encoded := vectors.encode_texts(view.release.encoder, texts) if texts else {}):
        cosines = np.array([encoded[text] @ encoded[query.text] for text in texts[1:]], dtype=np.float64)
        relevance = scale.compute_relevances(cosines, share)
    order = np.lexsort((-np.arange(len(hits)), -share, -relevance))
    return [replace(hits[n], score=float(share[n]), relevance=float(relevance[n])) for n in order if relevance[n] > 0]


def read_unreleased(
    view: View | None, space_dir: Path, roles: Collection[str] = (Role.USER, Role.ASSISTANT)
) -> list[Hit]:
    """Return what those of some roles wrote and the release does not have, by the transcripts' own ids; the oldest
    first.
    """
    written = read_written(space_dir, view.files_read if view else frozenset())
    hits = [_make_hit(line) for line in written if line["role"] in roles]
    named = {hit.sources[0].session for hit in hits}
    keys = {key: native for key, native in view.native_sessions.items() if native in named} if view and named else {}
    mine, columns = pc.field("session_id").isin([*keys]), ["session_id", "native_id"]
    rows = view.read(MESSAGES, columns, mine).to_pylist() if view and keys else []
    known = {(keys[row["session_id"]], row["native_id"]) for row in rows}
    new = [hit for hit in hits if (hit.sources[0].session, hit.sources[0].message) not in known]
    return sorted(new, key=lambda hit: str(hit.observed_at))


def _make_hit(line: Mapping[str, str]) -> Hit:
    """Return a line of a journal as a hit that is not weighed yet."""
    session, message, text = line["session_id"], line["message_id"], line["content"]
    return Hit(
        *(
            "message",
            f"{session}/{message}",
            text,
            0.0,
            datetime.fromisoformat(line["ts"]) if line["ts"] else None,
            Status.NOT_DISTILLED,
        ),
        sources=(Source(session, message, text[:QUOTE_CHARS]),),
        workspace=line.get("workspace"),
        speaker=line.get("speaker") or line["role"],
    )


def _filter_hits(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return those that pass the query's conditions."""
    workspaces = {hit.workspace for hit in hits if hit.workspace}
    places = find_workspaces(query.workspace, workspaces) if query.workspace else ()
    speaker = normalise_name(query.speaker or "")
    ways = build_path_variants(query.files, workspaces) if query.files else []
    return [
        hit
        for hit in hits
        if (query.workspace is None or hit.workspace in places)
        and (query.since is None or (hit.observed_at and hit.observed_at >= query.since))
        and (query.until is None or (hit.observed_at and hit.observed_at <= query.until))
        and (not speaker or f"{normalise_name(hit.speaker or '')} ".startswith(f"{speaker} "))
        and (not ways or any(way.is_valid_in(hit.workspace) and way.pattern.search(hit.text) for way in ways))
    ]
