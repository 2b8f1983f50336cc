"""Learns which later claim changes an earlier one, and judges what was learnt on sources that it did not see.

    python -m bench.fit.changes FILE… --none FILE… [--held FILE…] [--stated data/labelled/stated_changes.tsv]
                                [--pairs data/labelled/pairs_*.jsonl] [--authors] [--write] [--json]

What ships learnt from `data/labelled/amendments*.jsonl`, `nothing_changes`, calm and real coding sessions, the stated
pairs and the pairs of independent writers; `amended_*_sight` are never learnt from.

FILEs are conversations with cases in them (`bench/recall/changes.py`); in those after `--none` no session
changes what another said, nor in those after `--held`, which are judged and never learnt from (LoCoMo's too, by its
ending `.json`). A night runs over each. A pair of claims is a change where the earlier has a case's stale words and
the later its amended ones; an earlier one with stale words and any other later one is left out; all other pairs are
none. Of each file four views are learnt from: as it is, without vectors, as if all were said in one session (what only
two sessions tell is left out), and drawn small, since in a new store nothing is rare.

Files after `--pairs` have a pair of statements a line (`earlier` and `later` with `who`, `date` and `text`), and its
`kind`: replaced, retracted, restored, affirmed, narrowed, lookalike or unrelated. From them a linear model over the
encoder's vectors learns the kind (`tasks/changes/model.py`), and one over letters that of pairs in scripts without
spaces; what they say of a pair is a feature of the classifier.
The features of a labelled pair come from a reader that did not learn from that project. Each writer is judged by a
reader and a classifier that learnt from the others.

Those held are judged by a model from all. With `--authors`, each other source is judged by a model from those of other
authors, a fit each; a source is a file less the number at its name's end. Columns: *claims*; *cases*;
then at each threshold, of claims without a case those called changed between sessions, some of them rightly, and cases
of which every stale claim is; of a writer's pairs, by kind, those called a change from .4 and .94, and those called
taken back. `--write` puts the models from all files into `tasks/changes/`: the readers (`reader.npz`, `letters.npz`),
the classifier of the pairs that they read (`changes.onnx`), and that of other pairs (`changes_unread.onnx`).
"""

import csv
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
from slowwave.engines.encoders.pair_reader import (
    READER_FILE,
    READS,
    PairReader,
    combine_vectors,
)
from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, Status
from slowwave.store import Store
from slowwave.tasks.changes.features import SAYS, build_matrix
from slowwave.tasks.changes.letters import (
    LETTERS_FILE,
    LetterReader,
    is_unspaced,
    list_new_runs,
)
from slowwave.tasks.changes.model import CHANGES_FILE, UNREAD_FILE
from slowwave.tasks.changes.pairs import (
    Evidence,
    build_candidate_claims,
    find_affirmed_times,
)
from slowwave.tasks.changes.task import add_origins
from slowwave.tasks.changes.verdicts import SUPERSEDED
from slowwave.tasks.dedupe.candidates import Floats
from slowwave.tasks.dedupe.pairs import set_columns, stack_unit_vectors

WRITTEN, UNREAD = ROOT / "tasks" / CHANGES_FILE, ROOT / "tasks" / UNREAD_FILE
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
"""The classifier's settings; others of half or twice as much differ by less than .005 of average precision."""

KINDS = (
    "affirmed",
    "lookalike",
    "narrowed",
    "replaced",
    "restored",
    "retracted",
    "unrelated",
)
"""Kinds of pairs, as their writers name them."""
LABELS = {"replaced": 1.0, "restored": 1.0, "retracted": 2.0}
"""Class of a kind of pair; of others 0."""
FOLDS = 10
"""Parts of a writer's projects that are left out in turn."""
PENALTY = 0.1
"""Inverse strength of the reader's penalty."""
LETTERS_PENALTY = 0.3
"""Inverse strength of the penalty of the reader of letters."""
TWICE = 2
"""Pairs whose later statement has a run of letters anew, for it to have a weight."""
EASY = 10
"""One of so many easy pairs (clearly not changes) is learnt from, with the weight of all."""
HARD = 0.03
"""Least probability of a change for a pair that isn't easy."""
BARE = 3
"""Of so many views of a file one is learnt from without the reader, as for the vectors of another encoder."""
PAIR_WEIGHT = 2
"""Times that a writer's pair counts."""
START = datetime(2026, 1, 1, tzinfo=UTC)

Labels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Statement:
    """A sentence that somebody wrote for a pair."""

    text: str
    by_model: bool = False
    category: str = "decision"


@dataclass(frozen=True)
class Writer:
    """The labelled pairs of one writer."""

    name: str
    rows: list[dict[str, Any]]
    vectors: Vectors
    """The vectors of each pair's earlier and later statement, in turn."""
    views: "list[list[View]]"
    """Views of each pair: alone, without vectors, and among other claims."""


@dataclass(frozen=True)
class Readers:
    """Who reads pairs: from the encoder's vectors, or from the letters of a script that it does not read."""

    vectors: PairReader
    letters: LetterReader

    def fill(self, matrix: Floats, names: Sequence[str], view: "View") -> None:
        """Write into the features of a view's pairs what is read of them."""
        places = [names.index(READS + kind) for kind in KINDS]
        old, new = view.known.pairs.T
        if view.vectors.shape[1] * 3 == len(self.vectors.weights):
            matrix[:, places] = self.vectors.read(view.vectors[old], view.vectors[new])
        for row in np.flatnonzero(np.isnan(matrix[:, places[0]])).tolist():
            texts = (view.texts[at] for at in view.known.pairs[row].tolist())
            for name, odds in self.letters.read(*texts).items():
                matrix[row, names.index(name)] = odds


@dataclass(frozen=True)
class View:
    """The pairs of one store, or of a part of one."""

    known: Evidence
    texts: list[str]
    """The text of each row."""
    vectors: Floats
    """The vector of each row, zeros without one."""
    labels: Labels
    """1 where the later changes the earlier, 2 if it takes it back, 0 if neither, NaN if unknown."""
    stale: list[list[int]]
    """The rows with each case's stale words."""
    sessions: list[str]
    """The session of each row."""

    def build_matrix(self, names: Sequence[str], readers: Readers | None) -> Floats:
        """Return the features of the pairs, with what readers read of them."""
        matrix = build_matrix(self.known.features, names)
        if readers:
            readers.fill(matrix, names, self)
        return matrix


Learnt = tuple[View, Readers | None]
"""Pairs to learn from, and who reads them."""


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
    pairs: Sequence[Path] = (),
    authors: bool = False,
    write: bool = False,
) -> Figures:
    """Do a night a file; fit the models from all, and without each writer. Return a row a source."""
    told = [read_claims(path) for path in (*files, *none, *held)]
    company = read_claims(none[0])[0] if none else CLAIMS.make_empty_table()
    sources = [
        label_source(path.stem, *claims, learnt=path not in held)
        for path, claims in zip((*files, *none, *held), told, strict=True)
    ]
    stated_views = read_stated(stated, company) if stated else []
    writers = [encode_pairs(path, company) for path in pairs]
    names = find_names([source for source in sources if source.learnt], bool(writers))
    reader = fit_readers(writers) if writers else None
    written = learn_written(stated_views, writers, reader)
    learnt = [*written, *_list_learnt(sources, reader)]
    model = fit_model(learnt, names)
    if write:
        WRITTEN.write_bytes(build_graph(model, names))
        if reader:
            (ROOT / "tasks" / READER_FILE).write_bytes(reader.vectors.to_bytes())
            (ROOT / "tasks" / LETTERS_FILE).write_bytes(reader.letters.to_bytes())
            plain = [name for name in names if not name.startswith(READS)]
            unread = fit_model([(view, None) for view, _ in learnt], plain)
            UNREAD.write_bytes(build_graph(unread, plain))
    held_sources = [source for source in sources if not source.learnt]
    rows = [_judge_source(one, model, names, reader) for one in held_sources]
    for own in writers:
        others = [writer for writer in writers if writer is not own]
        if others:
            rows.append(judge_writer(own, others, stated_views, sources, names))
    if authors:
        rows += judge_sources(sources, written, names, reader)
    title = "changes between sessions: claims without a case | cases, called changed from a probability"
    return Figures(rows, title)


def judge_writer(
    own: Writer,
    others: Sequence[Writer],
    stated: Sequence[View],
    sources: Sequence[PairSource],
    names: Sequence[str],
) -> Row:
    """Judge one writer by a reader and a classifier that learnt from the other writers."""
    reader = fit_readers(others)
    learnt = [*learn_written(stated, others, reader), *_list_learnt(sources, reader)]
    return count_kinds(own, fit_model(learnt, names), names, reader)


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
        opened = Store.open(store)
        table = add_origins(opened, opened.read(CLAIMS))
        return table, [case for case in cases if not case.by_id]


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
    vectors, _ = stack_unit_vectors(held.table)
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
    sessions = [row["session_id"] for row in rows]
    summaries = [row["summary"] for row in rows]
    return View(known, summaries, vectors, np.array(labels), stale, sessions)


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
    views = []
    for at, row in enumerate(rows):
        said = [Statement(row[name]) for name in ("earlier", "later")]
        pair = _build_pair(said, vectors[2 * at : 2 * at + 2])
        label = float(row["changes"] == "yes")
        views += _view_pair(pair, label, _draw_company(company, at))
    return views


def encode_pairs(path: Path, company: pa.Table) -> Writer:
    """Return a file of labelled pairs with the vectors of their statements, and their views."""
    said = map(orjson.loads, path.read_bytes().splitlines())
    # a pair of two projects has a list of them
    rows = [row | {"project": str(row["project"])} for row in said]
    texts = [row[name]["text"] for row in rows for name in ("earlier", "later")]
    vectors = load_encoder(Settings().encoder).encode(texts)
    views = [
        _view_pair(
            _build_labelled(rows, vectors, at),
            LABELS.get(row["kind"], 0.0),
            _draw_company(company, at),
        )
        for at, row in enumerate(rows)
    ]
    return Writer(path.stem, rows, vectors, views)


def fit_readers(writers: Sequence[Writer], without: Collection[str] = ()) -> Readers:
    """Return the models of the kinds of pairs, fitted without some projects."""
    return Readers(fit_reader(writers, without), fit_letters(writers, without))


def fit_letters(
    writers: Sequence[Writer], without: Collection[str] = ()
) -> LetterReader:
    """Return a linear model of the kinds of pairs in scripts without spaces, fitted without some projects."""
    from sklearn.linear_model import LogisticRegression

    told = [
        (list_new_runs(*texts), row["kind"])
        for writer in writers
        for row in writer.rows
        if row["project"] not in without
        and is_unspaced(*(texts := (row["earlier"]["text"], row["later"]["text"])))
    ]
    counts = Counter(run for runs, _ in told for run in runs)
    runs = sorted(run for run, count in counts.items() if count >= TWICE)
    if {kind for _, kind in told} != {*KINDS}:
        zeros = np.zeros((0, len(KINDS)), np.float32)
        return LetterReader([*KINDS], [], zeros, np.zeros(len(KINDS), np.float32))
    inputs = np.array([[run in new for run in runs] for new, _ in told], np.float32)
    model = LogisticRegression(C=LETTERS_PENALTY, max_iter=2_000)
    model.fit(inputs, [kind for _, kind in told])
    return LetterReader(
        model.classes_.tolist(),
        runs,
        model.coef_.T.astype(np.float32),
        model.intercept_.astype(np.float32),
    )


def fit_reader(writers: Sequence[Writer], without: Collection[str] = ()) -> PairReader:
    """Return a linear model of the kinds of pairs by their vectors, fitted without some projects."""
    from sklearn.linear_model import LogisticRegression

    kept = [
        [row["project"] not in without for row in writer.rows] for writer in writers
    ]
    inputs = [
        combine_vectors(writer.vectors[0::2], writer.vectors[1::2])[keep]
        for writer, keep in zip(writers, kept, strict=True)
    ]
    kinds = [
        row["kind"]
        for writer in writers
        for row in writer.rows
        if row["project"] not in without
    ]
    model = LogisticRegression(C=PENALTY, max_iter=2_000)
    model.fit(np.concatenate(inputs), kinds)
    return PairReader(
        model.classes_.tolist(),
        model.coef_.T.astype(np.float32),
        model.intercept_.astype(np.float32),
    )


def learn_written(
    stated: Sequence[View], writers: Sequence[Writer], reader: Readers | None
) -> list[Learnt]:
    """Return the rows to learn from pairs that were written: each view with and without a reader.

    A writer's pair is read by a reader that did not learn from its project.
    """
    learnt: list[Learnt] = [(v, by) for v in stated for by in (reader, None)] * WEIGHT
    projects = sorted({row["project"] for one in writers for row in one.rows})
    for fold in range(FOLDS):
        away = frozenset(projects[fold::FOLDS])
        if not away:
            continue
        by_others = fit_readers(writers, away)
        views = [
            view
            for writer in writers
            for row, of_pair in zip(writer.rows, writer.views, strict=True)
            if row["project"] in away
            for view in of_pair
        ]
        learnt += [(v, by) for v in views for by in (by_others, None)] * PAIR_WEIGHT
    return learnt


def _build_labelled(
    rows: Sequence[dict[str, Any]], vectors: Vectors, at: int
) -> pa.Table:
    """Return a labelled pair as rows of CLAIMS; two statements of one day are of one session."""
    row = rows[at]
    said = [
        Statement(row[name]["text"], row[name]["who"] == "agent")
        for name in ("earlier", "later")
    ]
    everyday = "engineering" not in row["domain"] and bool(at % 2)
    return _build_pair(
        said,
        vectors[2 * at : 2 * at + 2],
        days=0 if row["earlier"]["date"] == row["later"]["date"] else 31,
        pack="personal" if everyday else "coding",
    )


def _draw_company(company: pa.Table, seed: int) -> pa.Table:
    """Return the claims of a few sessions that stand beside a pair."""
    sessions = company["session_id"].unique().to_pylist()
    drawn = random.Random(seed).sample(sessions, BESIDE)
    beside = company.filter(pc.is_in(company["session_id"], pa.array(drawn)))
    return set_columns(beside, workspace=None)


def _view_pair(pair: pa.Table, label: float, beside: pa.Table) -> list[View]:
    """Return the views of a pair: alone, without vectors, and among other claims."""
    views = []
    company = pa.concat_tables([pair, beside.select(pair.schema.names)])
    for table in (pair, set_columns(pair, vector=None), company):
        view = label_claims(table, [])
        ids = sorted(table["claim_id"].to_pylist())
        labels = [
            label * ((ids[old], ids[new]) == ("earlier", "later"))
            for old, new in view.known.pairs.tolist()
        ]
        views.append(replace(view, labels=np.array(labels, np.float64)))
    return views


def count_kinds(
    writer: Writer, model: Any, names: Sequence[str], reader: Readers | None
) -> Row:
    """Return of a writer's pairs, by kind, how many a model calls a change from .4 and from .94, and taken back."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row, (view, *_) in zip(writer.rows, writer.views, strict=True):
        count = counts[row["kind"]]
        count[3] += 1
        matrix = view.build_matrix(names, reader)
        for found in model.predict_proba(matrix) if len(matrix) else ():
            count[0] += 1 - found[0] >= PERHAPS_CHANGED
            count[1] += 1 - found[0] >= SUPERSEDED
            count[2] += found[2] > found[1] and 1 - found[0] >= PERHAPS_CHANGED
    return {"source": writer.name} | {
        kind: "{} | {} | {} of {}".format(*count) for kind, count in counts.items()
    }


def _build_pair(
    said: Sequence[Statement], vectors: Vectors, days: int = 31, pack: str = "coding"
) -> pa.Table:
    """Return two claims as rows of CLAIMS, some days apart; of one session if these are 0."""
    rows = []
    for at, (name, statement) in enumerate(
        zip(("earlier", "later"), said, strict=True)
    ):
        text = statement.text
        row: dict[str, Any] = dict.fromkeys(CLAIMS.schema.names)
        row |= {name: [] for name in ("files", "keywords", "evidence_sessions")}
        row |= {
            "claim_id": name,
            "session_id": name if days else "both",
            "summary": text,
            "quote": text,
            "message_ids": [name],
        }
        row |= {
            "category": statement.category,
            "pack": pack,
            "confidence": 0.5,
            "observer": "",
            "step_key": "",
        }
        row |= {
            "status": Status.ACTIVE,
            "vector": vectors[at],
            "observed_at": START + at * timedelta(days=days, minutes=1),
        }
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=CLAIMS.schema)
    return table.append_column("by_model", pa.array([one.by_model for one in said]))


def fit_model(learnt: Sequence[Learnt], names: Sequence[str]) -> Any:
    """Return a classifier from the pairs whose label is known, those of two sessions once more as if of one."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    of_two = find_names_of_two_sessions([view for view, _ in learnt])
    only_apart = [
        at
        for at, name in enumerate(names)
        if name in of_two and not name.startswith(SAYS)
    ]
    matrices, labels = [], []
    for view, reader in learnt:
        told = ~np.isnan(view.labels)
        matrix = view.build_matrix(names, reader)
        within = matrix[told & view.known.apart]
        within[:, only_apart] = np.nan
        matrices += [matrix[told], within]
        labels += [view.labels[told], view.labels[told & view.known.apart]]
    matrix, label = np.concatenate(matrices), np.concatenate(labels)
    weights = weigh_pairs(matrix, label)
    kept = weights > 0
    return HistGradientBoostingClassifier(**TREES).fit(
        matrix[kept], label[kept], sample_weight=weights[kept]
    )


def weigh_pairs(matrix: Floats, label: Labels) -> Floats:
    """Return the weight of each pair: one in EASY of those that a first fit calls no change counts for all of them.

    Nearly all pairs are easy, and the fit takes as long as it has pairs.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    drawn = np.random.default_rng(0).random(len(label)) * EASY < 1
    if len(label) < LARGE:
        return np.ones(len(label))
    some = drawn | (label > 0)
    first = HistGradientBoostingClassifier(**(TREES | {"max_iter": 30}))
    first.fit(matrix[some], label[some], sample_weight=np.where(label[some], 1, EASY))
    hard = (label > 0) | (first.predict_proba(matrix)[:, 0] < 1 - HARD)
    return np.where(hard, 1.0, np.where(drawn, float(EASY), 0.0))


def build_graph(classifier: Any, names: Sequence[str]) -> bytes:
    """Return a fitted classifier as ONNX; skl2onnx 1.20 fails on scikit-learn 1.9 with missing values.

    The graph gives the log-odds of each class, or of the second of two.

    It reads no categories, and its thresholds are rounded down: of two numbers of 32 bits the lower goes left.
    """
    from onnx import TensorProto, helper

    # all trees' nodes in a row
    classes = len(classifier._predictors[0])
    trees = [tree.nodes for one in classifier._predictors for tree in one]
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
        "target_ids": tree[leaf] % classes,
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
        n_targets=classes,
        **lists,
    )
    ends = (("pairs", len(names)), ("odds", classes))
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


def find_names(sources: Sequence[PairSource], is_read: bool = False) -> list[str]:
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
    read = [READS + kind for kind in KINDS] if is_read else []
    others = [name for name in authors if not name.startswith(SAYS)]
    return sorted(others + read + said[:WORDS])


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
    sources: Sequence[PairSource],
    written: Sequence[Learnt],
    names: Sequence[str],
    reader: Readers | None,
) -> list[Row]:
    """Return of each source what a model from other authors', and from pairs that were written, says."""
    found = []
    learnt = [source for source in sources if source.learnt]
    for author in dict.fromkeys(source.author for source in learnt):
        rest = [source for source in learnt if source.author != author]
        model = fit_model([*written, *_list_learnt(rest, reader)], names)
        found += [
            _judge_source(source, model, names, reader)
            for source in learnt
            if source.author == author
        ]
    return found


def _list_learnt(sources: Sequence[PairSource], reader: Readers | None) -> list[Learnt]:
    """Return every view of the sources that are learnt from; some of them without the reader."""
    return [
        (view, reader if at % BARE != 1 else None)
        for source in sources
        if source.learnt
        for at, view in enumerate((source.whole, *source.others))
    ]


def _judge_source(
    source: PairSource, model: Any, names: Sequence[str], reader: Readers | None
) -> Row:
    """Count the pairs of a source that a model calls changed."""
    matrix = source.whole.build_matrix(names, reader)
    return count_called(source, 1 - model.predict_proba(matrix)[:, 0])


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
