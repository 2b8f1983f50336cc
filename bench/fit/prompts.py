"""Learns from labelled prompts what they ask for, and how well that holds for writers not seen.

    python -m bench.fit.prompts [--model NAME] [--encoder NAME] [--write] [--json]

A model tells which prompts ask about earlier sessions (*prompts*), which questions ask for what an assistant said or
for what a person said (*answers*, *persons*; the writers are three topics of one writer), which ask for many messages
at once, in order or summed up (*overviews*; likewise), which replies only acknowledge (*replies*; the writers are every
other line of one writer; by letters alone), or which object to what they answer (*objections*: the first clauses of
persons' messages next to an agent's in `statements_*.jsonl`, in which something is refused or corrected, and of
`pairs_replies.jsonl`; by letters alone).

Each writer is judged by a model of the others', and each language of theirs too. Columns: *prompts* of the writer,
*AUC*, and the share over the model's threshold (`slowwave.recall.prompts`) of *questions*, the prompts that do so, and
of *everyday* prompts, which do not, with the prompt's vector and by its letters alone. `--write` fits the writers
marked `learn` and writes the model that ships: of the other an end-to-end test asks a memory
(`tests/cli/test_hook_prompts.py`).
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.fit.reader import SEALED
from bench.harness import LABELLED, ROOT, Figures, Row, run
from slowwave.engines.encoders.load import load_encoder
from slowwave.recall.prompts import (
    ANSWERS_FILE,
    ASKS,
    ASKS_ANSWER,
    ASSENTS,
    MODEL_FILE,
    OBJECTIONS_FILE,
    OBJECTS,
    OVERVIEW,
    OVERVIEWS_FILE,
    PERSONS_FILE,
    REPLIES_FILE,
    Floats,
    PromptModel,
    hash_grams,
    name_model_file,
    take_first_clause,
)
from slowwave.schemas.errors import UsageError

MODELS = {
    "prompts": ("prompts.tsv", "memory", MODEL_FILE, ASKS),
    "answers": ("answers_asked.tsv", "answer", ANSWERS_FILE, ASKS_ANSWER),
    "persons": ("answers_asked.tsv", "person", PERSONS_FILE, ASKS_ANSWER),
    "overviews": ("overviews_asked.tsv", "overview", OVERVIEWS_FILE, OVERVIEW),
    "replies": ("replies.tsv", "assent", REPLIES_FILE, ASSENTS),
    "objections": ("", "", OBJECTIONS_FILE, OBJECTS),
}
"""For each model: its labelled prompts, the label that it looks for, its file and its threshold."""
OBJECTING = {"refused", "correction"}
"""Kinds of statements in a message that objects."""
ENCODER = "all-MiniLM-L6-v2"
DEFAULT = "all-MiniLM-L6-v2"
"""The encoder whose models have no encoder in their files' names."""
STRENGTH = 4.0
"""Inverse of the penalty on weights."""
LEARN = "learn"


class Prompt(NamedTuple):
    """A labelled prompt."""

    use: str
    writer: str
    language: str
    asks: bool
    text: str


def measure(
    *, model: str = "prompts", encoder: str = DEFAULT, write: bool = False
) -> Figures:
    """Return a row a writer and a row a language; write the model.

    Raises:
        UsageError: no such model, or an encoder for which none ships.
    """
    if model not in MODELS:
        raise UsageError(f"model is {model!r}; it is one of {', '.join(MODELS)}")
    labels, label, file, least = MODELS[model]
    if encoder != DEFAULT and name_model_file(file, encoder) == file:
        raise UsageError(f"no {model} model ships for the encoder {encoder!r}")
    prompts = read_prompts(LABELLED / labels, label) if labels else [*read_objections()]
    vectors = np.zeros((len(prompts), 0))
    if labels:
        texts = [one.text for one in prompts]
        vectors = np.asarray(load_encoder(encoder).encode(texts), dtype=np.float64)
    asks = np.array([one.asks for one in prompts])
    with_vector, by_letters = np.zeros(len(prompts)), np.zeros(len(prompts))
    writers = np.array([one.writer for one in prompts])
    for writer in sorted(set(writers)):
        others, own = (
            np.flatnonzero(writers != writer),
            np.flatnonzero(writers == writer),
        )
        fitted = fit_prompt_model(
            [prompts[at] for at in others], vectors[others], encoder
        )
        with_vector[own] = [
            fitted.compute_probability(prompts[at].text, vectors[at]) for at in own
        ]
        by_letters[own] = [
            fitted.compute_probability(prompts[at].text, None) for at in own
        ]
    if write:
        learnt = [at for at, one in enumerate(prompts) if one.use == LEARN]
        fitted = fit_prompt_model(
            [prompts[at] for at in learnt], vectors[learnt], encoder
        )
        save_model(fitted, name_model_file(file, encoder))
    rows = [
        _measure_some(f"{name} {value}", mask, asks, with_vector, by_letters, least)
        for name, values in (
            ("writer", writers),
            ("language", np.array([one.language for one in prompts])),
        )
        for value in sorted(set(values))
        for mask in [values == value]
    ]
    return Figures(rows, title=f"{model} from {least}")


def read_prompts(labels: Path, label: str) -> list[Prompt]:
    """Return the labelled prompts; those with a label ask."""
    with labels.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Prompt(
                row["use"],
                row["writer"],
                row["language"],
                row["label"] == label,
                row["text"],
            )
            for row in rows
        ]


def read_objections() -> Iterator[Prompt]:
    """Yield the first clause of each labelled reply to an agent; those that object ask."""
    paths = sorted(LABELLED.glob("statements_*.jsonl"))
    for path in (path for path in paths if SEALED not in path.name):
        for line in path.read_text(encoding="utf-8").splitlines():
            session = json.loads(line)
            for before, turn in pairwise(session["turns"]):
                said = turn.get("statements")
                if before["role"] == "assistant" and said:
                    kinds = {one["kind"] for one in said}
                    yield _make_reply(
                        session, turn["text"], not OBJECTING.isdisjoint(kinds)
                    )
    replies = LABELLED / "pairs_replies.jsonl"
    for line in replies.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        yield _make_reply(pair, pair["later"]["text"], pair["kind"] == "retracted")


def _make_reply(labelled: Mapping[str, Any], text: str, asks: bool) -> Prompt:
    """Return a reply of a labelled session or pair."""
    first = take_first_clause(text)
    return Prompt(LEARN, labelled["writer"], labelled["language"], asks, first)


def fit_prompt_model(
    prompts: Sequence[Prompt], vectors: Floats, encoder: str
) -> PromptModel:
    """Return a model of the prompts, each with and without its vector: a memory may have no encoder, or another."""
    from sklearn.linear_model import LogisticRegression

    grams = np.array([hash_grams(one.text) for one in prompts])
    asks = [one.asks for one in prompts]
    rows = np.vstack(
        [np.hstack([vectors, grams]), np.hstack([np.zeros_like(vectors), grams])]
    )
    fitted = LogisticRegression(C=STRENGTH, max_iter=5_000).fit(rows, asks + asks)
    weights = fitted.coef_[0]
    size = vectors.shape[1]
    return PromptModel(
        encoder, weights[:size], weights[size:], float(fitted.intercept_[0])
    )


def save_model(model: PromptModel, file: str) -> None:
    """Write a model that ships."""
    vector, grams = model.vector.astype(np.float32), model.grams.astype(np.float32)
    path = ROOT / "slowwave" / "recall" / file
    np.savez_compressed(
        path,
        encoder=np.array(model.encoder),
        vector=vector,
        grams=grams,
        bias=np.array(model.bias),
    )


def _measure_some(
    name: str,
    mask: Floats,
    asks: Floats,
    with_vector: Floats,
    by_letters: Floats,
    least: float,
) -> Row:
    """Return the figures of the prompts under a mask."""
    from sklearn.metrics import roc_auc_score

    own = asks[mask]
    is_mixed = bool(own.any() and not own.all())
    row: dict[str, object] = {"of": name, "prompts": len(own)}
    for kind, probabilities in (
        ("", with_vector[mask]),
        (" by letters", by_letters[mask]),
    ):
        row |= {
            f"AUC{kind}": float(roc_auc_score(own, probabilities))
            if is_mixed
            else None,
            f"questions{kind}": float(np.mean(probabilities[own] >= least))
            if own.any()
            else None,
            f"everyday{kind}": float(np.mean(probabilities[~own] >= least))
            if not own.all()
            else None,
        }
    return row


if __name__ == "__main__":
    run(measure)
