"""Fits the weights that tell how likely a later claim changes an earlier one, and shows what they are worth.

    python -m bench.fit_amendments data/labelled/amendments*.jsonl [--none FILE…] [--write] [--json]

FILEs are conversations with cases in them, as for `bench.amendments`; those after `--none` are transcripts of any kind
in which no session changes what another said (LoCoMo's too, by its ending `.json`). A night runs over each. A pair of
claims of two sessions is a change where the earlier has a case's stale words and the later its amended ones; an earlier
one with stale words and any other later one is left out, all other pairs are none. Figures are of files that the fit
did not see: each is judged by weights from the others. Columns: claims; pairs; changes among them; *retired*, cases of
which every claim with stale words is retired, since the later says so in so many words; *told*, of which every one is
retired or doubted; *by the right one*, some of them by a claim with the amended words; *others retired* and *others
told*, claims without a case, some of them rightly. `--write` puts the weights from all
files into `tasks/supersede/likely.json`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bench.amendment_cases import Case, read_cases
from bench.amendments import run_night_over
from bench.locomo_data import load_conversations
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.store import Store
from slowwave.tasks.supersede.claims import build_candidate_claims, find_affirmed_times
from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.model import PERHAPS, Model, adjust_probabilities, select_scorable_pairs

WRITTEN = Path(__file__).parent.parent / "tasks" / "supersede" / "likely.json"
PENALTY = 0.03
"""C of the regression: 1 over the weight of the squared weights."""


@dataclass(frozen=True)
class Pair:
    """Two claims of two sessions."""

    old: int
    new: int
    traits: dict[str, float]
    change: bool | None
    """Whether the later changes the earlier; None where that is not known."""
    stated: bool = False
    """Whether the later says so in so many words."""


@dataclass(frozen=True)
class Labelled:
    """One file's pairs."""

    name: str
    claims: int
    pairs: list[Pair]
    stale: list[list[int]]
    """Of each case, the rows with its stale words."""


@dataclass(frozen=True)
class Result:
    """One file, judged by weights from the others."""

    file: str
    claims: int
    pairs: int
    changes: int
    cases: int
    retired: int
    told: int
    by_the_right_one: int
    others_retired: int
    others_told: int


def label_file(path: Path, *, changes: bool = True) -> Labelled:
    """Return the pairs of one file, from a night over it; without `changes` it has no cases."""
    with tempfile.TemporaryDirectory() as folder:
        store, cases = Path(folder) / "store", list[Case]()
        if changes:
            messages, cases = read_cases([path])
            store = run_night_over(messages, Path(folder))
        else:
            run_night([_prepare_transcript(path, Path(folder))], Settings(store=store))
        return label_claims(path.stem, Store.open(store).read(OBSERVATIONS), cases)


def _prepare_transcript(path: Path, folder: Path) -> Path:
    """Return the file, or LoCoMo's conversations in it as generic JSONL."""
    if path.suffix != ".json":
        return path
    lines = [
        {
            "session_id": f"{conversation.id}-{turn.session}",
            "message_id": turn.id,
            "role": "user",
            "speaker": turn.speaker,
            "content": turn.text,
            "ts": turn.ts.isoformat(),
            "workspace": conversation.id,
        }
        for conversation in load_conversations(path)
        for turn in conversation.turns
    ]
    written = folder / f"{path.stem}.jsonl"
    written.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    return written


def label_claims(name: str, table: pa.Table, cases: Sequence[Case]) -> Labelled:
    """Return the pairs among claims that are there already, rows of OBSERVATIONS."""
    known = Evidence.from_candidates(build_candidate_claims(table, find_affirmed_times(table)), Settings().dedupe)
    rows = known.held.table.select(["summary", "detail", "observed_at"]).to_pylist()
    texts = [f"{row['summary']} {row['detail'] or ''}" for row in rows]
    outdated = [
        {n for n, case in enumerate(cases) if case.is_outdated(text, row["observed_at"])}
        for text, row in zip(texts, rows, strict=True)
    ]
    holding = [{n for n, case in enumerate(cases) if case.is_current(text)} for text in texts]
    found = []
    for old, new, traits in select_scorable_pairs(known):
        change = bool(outdated[old] & holding[new]) or (None if outdated[old] else False)
        found.append(Pair(old, new, traits, change, (old, new) in known.stated))
    stale = [[row for row, of in enumerate(outdated) if n in of] for n in range(len(cases))]
    return Labelled(name, len(rows), found, stale)


def fit_model(files: Sequence[Labelled]) -> Model:
    """Return weights for the traits as they are, from a regression over standardised ones."""
    known = [pair for file in files for pair in file.pairs if pair.change is not None]
    names = sorted(known[0].traits)
    matrix = np.array([[pair.traits[name] for name in names] for pair in known])
    scaler = StandardScaler()
    regression = LogisticRegression(C=PENALTY, max_iter=5_000)
    changes = [bool(pair.change) for pair in known]
    regression.fit(scaler.fit_transform(matrix), changes)
    weights: npt.NDArray[np.float64] = regression.coef_[0] / scaler.scale_
    bias = float(regression.intercept_[0] - (weights * scaler.mean_).sum())
    told = {name: round(float(w), 4) for name, w in zip(names, weights, strict=True)}
    return Model(round(bias, 4), told, round(sum(changes) / len(changes), 4))


def evaluate_held_out(file: Labelled, model: Model) -> Result:
    """Return what is retired of a file's claims, and what a model doubts beside."""
    best: dict[int, tuple[float, Pair]] = {}
    probabilities = adjust_probabilities([model.predict_probability(pair.traits) for pair in file.pairs], model.share)
    for pair, probability in zip(file.pairs, probabilities, strict=True):
        if (pair.stated or probability >= PERHAPS) and probability > best.get(pair.old, (0.0, pair))[0]:
            best[pair.old] = (probability, pair)
    retired = {pair.old for pair in file.pairs if pair.stated}
    stale = {row for rows in file.stale for row in rows}
    held = [rows for rows in file.stale if rows]
    return Result(
        file=file.name,
        claims=file.claims,
        pairs=len(file.pairs),
        changes=sum(pair.change is True for pair in file.pairs),
        cases=len(file.stale),
        retired=sum(retired.issuperset(rows) for rows in held),
        told=sum(best.keys() >= set(rows) for rows in held),
        by_the_right_one=sum(any(row in best and best[row][1].change is True for row in rows) for rows in held),
        others_retired=len(retired - stale),
        others_told=len(best.keys() - stale),
    )


def render_changes_table(results: Sequence[Result]) -> Table:
    """For people."""
    shown = Table(title="changes between sessions, each file by weights from the others")
    shown.add_column("file")
    for column in fields(Result)[1:]:
        shown.add_column(column.name.replace("_", " "), justify="right")
    for r in results:
        shown.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in astuple(r)))
    return shown


def main() -> None:
    """Do a night a file and a fit without each; print the table and the weights of all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--none", nargs="+", type=Path, default=[], metavar="FILE", help="in these nothing is amended")
    parser.add_argument("--write", action="store_true", help="keep the weights from all files")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = [label_file(path) for path in args.files] + [label_file(path, changes=False) for path in args.none]
    results = (
        [evaluate_held_out(file, fit_model([f for f in files if f is not file])) for file in files]
        if len(files) > 1
        else []
    )
    if args.write:
        model = fit_model(files)
        told = {"bias": model.bias, "share": model.share, "weights": model.weights}
        WRITTEN.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    if args.json:
        print(orjson.dumps(results).decode())
    else:
        Console(width=120).print(render_changes_table(results))


if __name__ == "__main__":
    main()
