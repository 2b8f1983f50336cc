"""Learns to read what persons' sentences mean in one pass over the message, and how well that tells of writers unseen.

    python -m bench.fit.layers [FILE…] [--without WRITER…] [--further WRITER…] [--write] [--json]

The upper layers of the encoder that ships are learnt anew (`tasks/observe/layers.py`) from the sentences that
`bench.fit.reader` reads, by default of all writers. `--without` leaves out some writers and judges each of them:
the columns are those of `bench.fit.reader`. `--write` writes the layers that ship. Needs torch; takes about 8 minutes
of CPU.

With `--further` the layers that ship learn on, in FURTHER rounds, from these writers and from SHARE of the others'
turns, in a quarter of the time. So the shipped ones were learnt: from all, then further from `changed`, `adela`,
`jonas`, `lucie`, `pri` and `standing_pairs`, then from `later`, `plain` and `assents`, then from `terse` and `mixed`. A
fit of all from the start reads orders that set a value worse (docs/decisions/050-terse-orders.md).
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bench.fit.reader import (
    SEALED,
    LabelledSentence,
    judge_readings,
    read_invented,
    read_labelled,
)
from bench.fit.upper import LearntLayers, learn, load_shipped_encoder, pad_tokens
from bench.harness import LABELLED, ROOT, Figures, Row, run
from slowwave.engines.encoders.onnx import OnnxEncoder
from slowwave.schemas.errors import UsageError
from slowwave.tasks.observe.layers import (
    LAYERS_FILE,
    LayeredReader,
    ReadWindow,
    list_windows,
    load_layered_reader,
)
from slowwave.tasks.observe.reader import HEADS, Reading

EPOCHS, BATCH = 5, 12
RATE, HEAD_RATE, SPREAD = 1e-4, 1e-3, 0.02
"""Highest rates of learning, and the spread of the first weights of the heads."""
FURTHER, SHARE = 2, 0.3
"""Rounds of learning on, and the share of other turns that are learnt from beside what is new."""
FURTHER_RATE, FURTHER_HEAD_RATE = 4e-5, 4e-4
UNKNOWN = -1.0
"""In place of 0 or 1 where a label says nothing of a head."""
NOTHING = Reading(dict.fromkeys(HEADS, 0.0))


@dataclass(frozen=True)
class WindowBatch:
    """Windows that are learnt from together."""

    states: Tensor
    is_token: Tensor
    spans: list[tuple[int, int, int]]
    """The row, first and last token of each labelled sentence."""
    heads: Tensor
    """Shape (sentences, heads)."""


def measure(
    files: Sequence[Path] = (),
    *,
    without: Sequence[str] = (),
    further: Sequence[str] = (),
    write: bool = False,
) -> Figures:
    """Fit the layers; return a row a head of the sentences that were left out.

    Raises:
        UsageError: there is no writer of a name.
    """
    paths = files or sorted(LABELLED.glob("statements_*.jsonl"))
    labelled = read_labelled([path for path in paths if SEALED not in path.name])
    invented = read_invented()
    writers = {one.writer for one in (*labelled, *invented)}
    if missing := {*without, *further} - writers:
        raise UsageError(
            f"no writer {min(missing)!r}; there are {', '.join(sorted(writers))}"
        )
    learnt = [one for one in (*labelled, *invented) if one.writer not in without]
    encoder = load_shipped_encoder()
    reader = (
        fit_layers(draw_learnt(learnt, further), encoder, load_layered_reader())
        if further
        else fit_layers(learnt, encoder)
    )
    if write:
        (ROOT / "tasks" / LAYERS_FILE).write_bytes(reader.to_bytes())
    rows: list[Row] = []
    for writer in without:
        mine = [one for one in labelled if one.writer == writer]
        found = reader.read(
            reader.open(encoder), encoder, [one.sentence for one in mine]
        )
        readings = [reading or NOTHING for reading in found]
        rows += judge_readings(writer, readings, mine)
    return Figures(rows)


def draw_learnt(
    labelled: Sequence[LabelledSentence], further: Sequence[str]
) -> list[LabelledSentence]:
    """Return the sentences of some writers, and those of SHARE of the others' turns."""
    drawn = random.Random(0)
    taken: dict[int, bool] = {}
    for one in labelled:
        turn = id(one.sentence.turn)
        if one.writer not in further and turn not in taken:
            taken[turn] = drawn.random() < SHARE
    return [
        one for one in labelled if one.writer in further or taken[id(one.sentence.turn)]
    ]


def fit_layers(
    labelled: Sequence[LabelledSentence],
    encoder: OnnxEncoder,
    shipped: LayeredReader | None = None,
) -> LayeredReader:
    """Return layers that learnt from labelled sentences; with `shipped`, that go on from these."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LearntLayers(len(HEADS), SPREAD)
    if shipped is not None:
        model.take_tensors(shipped.tensors)
    batches = list(_list_batches(labelled, encoder, model))

    def compute_loss(batch: WindowBatch) -> Tensor:
        states = model.read_upper(batch.states, batch.is_token)
        pooled = torch.stack(
            [
                torch.cat([states[row, start:stop].mean(0), states[row, 0]])
                for row, start, stop in batch.spans
            ]
        )
        known = batch.heads != UNKNOWN
        return torch.nn.functional.binary_cross_entropy_with_logits(
            model.weigh(pooled)[known].float(), batch.heads[known]
        )

    learn(
        model,
        batches,
        compute_loss,
        epochs=EPOCHS if shipped is None else FURTHER,
        rate=RATE if shipped is None else FURTHER_RATE,
        head_rate=HEAD_RATE if shipped is None else FURTHER_HEAD_RATE,
    )
    return LayeredReader(model.collect_tensors())


def _list_batches(
    labelled: Sequence[LabelledSentence], encoder: OnnxEncoder, model: LearntLayers
) -> Iterator[WindowBatch]:
    """Yield the labelled sentences' windows in batches of about one length."""
    windows = sorted(
        _list_labelled_windows(labelled, encoder), key=lambda one: len(one[0].ids)
    )
    for start in range(0, len(windows), BATCH):
        some = windows[start : start + BATCH]
        ids, is_token = pad_tokens([window.ids for window, _ in some])
        spans, heads = [], []
        for row, (window, by_index) in enumerate(some):
            for index, one in by_index.items():
                spans.append((row, *window.spans[index]))
                heads.append([UNKNOWN if so is None else float(so) for so in one.heads])
        yield WindowBatch(
            model.read_lower(ids, is_token), is_token, spans, torch.tensor(heads)
        )


def _list_labelled_windows(
    labelled: Sequence[LabelledSentence], encoder: OnnxEncoder
) -> Iterator[tuple[ReadWindow, dict[int, LabelledSentence]]]:
    """Yield each window with its labelled sentences by their index in the message."""
    by_turn = defaultdict[int, list[LabelledSentence]](list)
    for one in labelled:
        by_turn[id(one.sentence.turn)].append(one)
    for group in by_turn.values():
        spoken = group[0].sentence
        by_index = {one.sentence.at: one for one in group}
        for window in list_windows(encoder, spoken.turn, spoken.last, {*by_index}):
            read = {at: by_index[at] for at in window.spans if at in by_index}
            if read:
                yield window, read


if __name__ == "__main__":
    run(measure)
