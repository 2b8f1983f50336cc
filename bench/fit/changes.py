"""Learns which later claim changes an earlier one, and judges what was learnt on sources that it did not see.

    python -m bench.fit.changes FILE… --none FILE… [--held FILE…] [--stated data/labelled/stated_changes.tsv]
                                [--write] [--json]

What ships learnt from `data/labelled/amendments*.jsonl`, `nothing_changes`, calm and real coding sessions and the
stated pairs; `amended_*_sight` are never learnt from.

FILEs are conversations with cases in them (`bench/recall/changes.py`); in those after `--none` no session
changes what another said, nor in those after `--held`, which are judged and never learnt from (LoCoMo's too, by its
ending `.json`). A night runs over each. A pair of claims is a change where the earlier has a case's stale words and
the later its amended ones; an earlier one with stale words and any other later one is left out; all other pairs are
none. Of each file four views are learnt from: as it is, without vectors, as if all were said in one session (what only
two sessions tell is left out), and drawn small, since in a new store nothing is rare.

A source is a file less the number at its name's end, so that one author's files stay together; each is judged by a
model from the others, those held by a model from all. Columns: *claims*; *cases*;
then at each threshold, of claims without a case those called changed between sessions, some of them rightly, and cases
of which every stale claim is. `--write` puts the model from all files into `tasks/supersede/changes.onnx`.
"""

import csv
import json
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import ROOT, Figures, Row, run
from bench.recall.changes import Case, read_cases, run_night_over
from bench.recall.talks import list_lines, load_conversations
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, Status
from slowwave.store import Store
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.supersede.claims import build_candidate_claims, find_affirmed_times
from slowwave.tasks.supersede.evidence import SAYS, Evidence, build_matrix
from slowwave.tasks.supersede.judge import SUPERSEDED
from slowwave.tasks.supersede.model import CHANGES_FILE

WRITTEN = ROOT / "tasks" / CHANGES_FILE
THRESHOLDS = (PERHAPS_CHANGED, 0.5, 0.6, 0.7, SUPERSEDED, 0.9)
FEW = (2, 4, 8)
"""Sessions that a small store is drawn of."""
BESIDE = 3
"""Sessions that stand beside a pair that was written."""
WEIGHT = 4
"""Times that such a pair counts."""
LARGE = 2_000
"""Claims from which a file is learnt from whole alone: what is drawn of it would outweigh all others."""
ALIKE = 40
"""Stores of two sessions without a change, at least, that are drawn of a file."""
WORDS = 300
"""Words, and two in a row, of the later claim that are learnt from."""
TREES = {
    "max_iter": 120, "learning_rate": 0.1, "max_leaf_nodes": 12, "min_samples_leaf": 30, "l2_regularization": 5.0,
    "max_features": 0.3, "random_state": 0,
}  # fmt: skip
"""Of the classifier; others of half or twice as much differ by less than .005 of average precision."""

Labels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """The pairs of one store, or of a part of one."""

    known: Evidence
    labels: Labels
    """1 where the later changes the earlier, 0 where not, NaN where that is not known."""
    stale: list[list[int]]
    """Of each case, the rows with its stale words."""
    sessions: list[str]
    """Of each row."""


@dataclass(frozen=True)
class PairSource:
    """One file."""

    name: str
    whole: View
    others: list[View]
    """Without vectors, and drawn small."""
    learnt: bool

    @property
    def author(self) -> str:
        """The name less its number."""
        return re.sub(r"_?\d+$", "", self.name)


def measure(
    files: Sequence[Path],
    *,
    none: Sequence[Path] = (),
    held: Sequence[Path] = (),
    stated: Path | None = None,
    write: bool = False,
) -> Figures:
    """Do a night a file and a fit without each author; return a row a source, and write the model."""
    sources = [
        label_source(path.stem, *read_claims(path), learnt=path not in held)
        for path in (*files, *none, *held)
    ]
    pairs = read_stated(stated, read_claims(none[0])[0]) if stated and none else []
    names = find_names([source for source in sources if source.learnt])
    rows = judge_sources(sources, pairs, names)
    if write:
        WRITTEN.write_bytes(
            build_graph(fit_model([*pairs, *_list_views(sources)], names), names)
        )
    title = "changes between sessions: claims without a case | cases, called changed from a probability"
    return Figures(rows, title)


def read_claims(path: Path) -> tuple[pa.Table, list[Case]]:
    """Run a night over a file; return its claims, rows of CLAIMS, and the cases that stand in it."""
    if path.suffix == ".json":
        told = [
            line | {"workspace": one.id}
            for one in load_conversations(path)
            for line in list_lines(one)
        ]
        lines, cases = [orjson.dumps(line) for line in told], list[Case]()
    else:
        lines, cases = read_cases(path)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        run_night_over(lines, path.stem, Settings(store=store))
        return Store.open(store).read(CLAIMS), [
            case for case in cases if not case.by_id
        ]


def label_source(
    name: str, table: pa.Table, cases: Sequence[Case], *, learnt: bool = True
) -> PairSource:
    """Return a file's claims in every view that is learnt from."""
    whole = label_claims(table, cases)
    parts = (
        [set_columns(table, vector=None), *_draw_small(table, whole)]
        if learnt and table.num_rows < LARGE
        else []
    )
    return PairSource(
        name, whole, [label_claims(part, cases) for part in parts], learnt
    )


def label_claims(table: pa.Table, cases: Sequence[Case]) -> View:
    """Return the pairs among claims, rows of CLAIMS, and whether each is a change."""
    held = build_candidate_claims(table, find_affirmed_times(table))
    known = Evidence.from_candidates(held)
    rows = held.table.select(
        ["summary", "detail", "observed_at", "session_id"]
    ).to_pylist()
    texts = [f"{row['summary']} {row['detail'] or ''}" for row in rows]
    outdated = [
        {
            n
            for n, case in enumerate(cases)
            if case.is_outdated(text, row["observed_at"])
        }
        for text, row in zip(texts, rows, strict=True)
    ]
    holding = [
        {n for n, case in enumerate(cases) if case.is_current(text)} for text in texts
    ]
    labels = [
        1.0 if outdated[old] & holding[new] else float("nan") if outdated[old] else 0.0
        for old, new in known.pairs.tolist()
    ]
    stale = [
        [row for row, of in enumerate(outdated) if n in of] for n in range(len(cases))
    ]
    return View(known, np.array(labels), stale, [row["session_id"] for row in rows])


def read_stated(path: Path, company: pa.Table) -> list[View]:
    """Return pairs of claims written for the purpose (`changes`, `earlier`, `later`): each alone, and among a few more.

    Args:
        path: tab-separated, with a heading.
        company: claims of a store, a few sessions of which stand beside each pair.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    vectors = load_encoder(Settings().encoder).encode(
        [row[name] for row in rows for name in ("earlier", "later")]
    )
    sessions = company["session_id"].unique().to_pylist()
    views = []
    for at, row in enumerate(rows):
        pair = _build_pair(row["earlier"], row["later"], vectors[2 * at : 2 * at + 2])
        beside = company.filter(
            pc.is_in(
                company["session_id"],
                pa.array(random.Random(at).sample(sessions, BESIDE)),
            )
        )
        for table in (
            pair,
            set_columns(pair, vector=None),
            pa.concat_tables([pair, set_columns(beside, workspace=None)]),
        ):
            view = label_claims(table, [])
            ids = sorted(table["claim_id"].to_pylist())
            changes = [
                float(
                    row["changes"] == "yes"
                    and (ids[old], ids[new]) == ("earlier", "later")
                )
                for old, new in view.known.pairs.tolist()
            ]
            views.append(replace(view, labels=np.array(changes)))
    return views * WEIGHT


def _build_pair(earlier: str, later: str, vectors: Vectors) -> pa.Table:
    """Return two claims as rows of CLAIMS, a month apart."""
    rows = []
    for at, (name, text) in enumerate((("earlier", earlier), ("later", later))):
        row: dict[str, Any] = dict.fromkeys(CLAIMS.schema.names)
        row |= {name: [] for name in ("files", "keywords", "evidence_sessions")}
        row |= {
            "claim_id": name,
            "session_id": name,
            "summary": text,
            "quote": text,
            "message_ids": [name],
        }
        row |= {
            "category": "decision",
            "pack": "coding",
            "confidence": 0.5,
            "observer": "",
            "step_key": "",
        }
        row |= {
            "status": Status.ACTIVE,
            "vector": vectors[at],
            "observed_at": datetime(2026, 1 + at, 1, tzinfo=UTC),
        }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=CLAIMS.schema)


def fit_model(views: Sequence[View], names: Sequence[str]) -> Any:
    """Return a classifier from the pairs whose label is known, those of two sessions once more as if of one."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    of_two = find_names_of_two_sessions(views)
    only_apart = [
        at
        for at, name in enumerate(names)
        if name in of_two and not name.startswith(SAYS)
    ]
    matrices, labels = [], []
    for view in views:
        told = ~np.isnan(view.labels)
        matrix = build_matrix(view.known.features, names)
        within = matrix[told & view.known.apart]
        within[:, only_apart] = np.nan
        matrices += [matrix[told], within]
        labels += [view.labels[told], view.labels[told & view.known.apart]]
    return HistGradientBoostingClassifier(**TREES).fit(
        np.concatenate(matrices), np.concatenate(labels)
    )


def build_graph(classifier: Any, names: Sequence[str]) -> bytes:
    """Return a fitted classifier of two classes as ONNX; skl2onnx 1.20 fails on scikit-learn 1.9 with missing values.

    It reads no categories, and its thresholds are rounded down: of two numbers of 32 bits the lower goes left.
    """
    from onnx import TensorProto, helper

    # all trees' nodes in a row
    trees = [predictor.nodes for (predictor,) in classifier._predictors]
    nodes, sizes = np.concatenate(trees), [len(tree) for tree in trees]
    tree, place = (
        np.repeat(np.arange(len(trees)), sizes),
        np.concatenate([np.arange(size) for size in sizes]),
    )
    leaf, exact = nodes["is_leaf"].astype(bool), nodes["num_threshold"]
    near = exact.astype(np.float32)
    attributes = {
        "nodes_treeids": tree,
        "nodes_nodeids": place,
        "nodes_featureids": nodes["feature_idx"],
        "nodes_values": np.where(
            near > exact, np.nextafter(near, np.float32(-np.inf)), near
        ),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_truenodeids": nodes["left"],
        "nodes_falsenodeids": nodes["right"],
        "nodes_missing_value_tracks_true": nodes["missing_go_to_left"],
        "target_treeids": tree[leaf],
        "target_nodeids": place[leaf],
        "target_ids": np.zeros(leaf.sum(), int),
        "target_weights": nodes["value"][leaf],
        "base_values": np.ravel(classifier._baseline_prediction),
    }
    lists = {name: values.tolist() for name, values in attributes.items()}
    # one node, from pairs to log odds
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["pairs"],
        ["odds"],
        domain="ai.onnx.ml",
        n_targets=1,
        **lists,
    )
    ends = (("pairs", len(names)), ("odds", 1))
    pairs, odds = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width])
        for name, width in ends
    )
    graph, version = (
        helper.make_graph([node], "changes", [pairs], [odds]),
        helper.make_opsetid("ai.onnx.ml", 3),
    )
    model = helper.make_model(graph, opset_imports=[version], ir_version=8)
    helper.set_model_props(model, {"names": json.dumps(list(names))})
    return bytes(model.SerializeToString())


def find_names(sources: Sequence[PairSource]) -> list[str]:
    """Return the names of all features, sorted; of the later claim's words those that most authors use."""
    authors: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for found in source.whole.known.features:
            for name in found:
                authors[name].add(source.author)
    said = sorted(
        (name for name in authors if name.startswith(SAYS)),
        key=lambda name: (-len(authors[name]), name),
    )
    return sorted(
        [name for name in authors if not name.startswith(SAYS)] + said[:WORDS]
    )


def find_names_of_two_sessions(views: Sequence[View]) -> set[str]:
    """Return the names of what is known of pairs of two sessions alone."""
    of_one = {
        name
        for view in views
        for found, apart in zip(view.known.features, view.known.apart, strict=True)
        if not apart
        for name in found
    }
    return {
        name for view in views for found in view.known.features for name in found
    } - of_one


def judge_sources(
    sources: Sequence[PairSource], stated: Sequence[View], names: Sequence[str]
) -> list[Row]:
    """Return of each source what a model from other authors', and from pairs that were written, says."""
    found = []
    for author in dict.fromkeys(
        source.author if source.learnt else None for source in sources
    ):
        rest = [
            source for source in sources if source.learnt and source.author != author
        ]
        model = fit_model([*stated, *_list_views(rest)], names)
        for source in sources:
            if (source.author if source.learnt else None) == author:
                matrix = build_matrix(source.whole.known.features, names)
                found.append(count_called(source, model.predict_proba(matrix)[:, 1]))
    return found


def _list_views(sources: Sequence[PairSource]) -> list[View]:
    """Return every view of the sources that are learnt from."""
    return [
        view
        for source in sources
        if source.learnt
        for view in (source.whole, *source.others)
    ]


def count_called(source: PairSource, told: Labels) -> Row:
    """Count at each threshold the claims that are called changed by another session."""
    view = source.whole
    best: dict[int, float] = {}
    for (old, _), likely, apart in zip(
        view.known.pairs.tolist(), told.tolist(), view.known.apart, strict=True
    ):
        if apart:
            best[old] = max(best.get(old, 0.0), likely)
    stale = {row for rows in view.stale for row in rows}
    gone = [
        {row for row, likely in best.items() if likely >= least} for least in THRESHOLDS
    ]
    counts = (
        f"{len(rows - stale)} | {sum(bool(case) and rows.issuperset(case) for case in view.stale)}"
        for rows in gone
    )
    called = dict(zip((f"{least:g}" for least in THRESHOLDS), counts, strict=True))
    return {
        "source": source.name,
        "claims": len(view.sessions),
        "cases": len(view.stale),
        **called,
    }


def _draw_small(table: pa.Table, whole: View) -> Iterator[pa.Table]:
    """Yield the claims of a few sessions: those that follow one another, the two of each change, and as many twos whose
    claims are likest and no change.
    """
    first = (
        table.group_by("session_id")
        .aggregate([("observed_at", "min")])
        .sort_by("observed_at_min")
    )
    ids = first["session_id"].to_pylist()
    drawn = [
        ids[at : at + size]
        for size in FEW
        for at in range(0, len(ids) - size + 1, size)
    ]
    order = np.argsort(-whole.known.likeness, kind="stable")
    told = {
        label: _list_session_pairs(whole, order[whole.labels[order] == label])
        for label in (0.0, 1.0)
    }
    alike = [pair for pair in told[0.0] if pair not in told[1.0]][
        : max(len(told[1.0]), ALIKE)
    ]
    for some in (*drawn, *told[1.0], *alike):
        yield table.filter(pc.is_in(table["session_id"], pa.array(some)))


def _list_session_pairs(
    whole: View, places: npt.NDArray[np.int64]
) -> list[tuple[str, str]]:
    """Return the two sessions of each pair, each two once; of one session none."""
    pairs = (
        sorted(whole.sessions[row] for row in whole.known.pairs[at])
        for at in places
        if whole.known.apart[at]
    )
    return list(dict.fromkeys((one, other) for one, other in pairs))


if __name__ == "__main__":
    run(measure)
