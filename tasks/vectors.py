"""The process's encoder, and vectors for rows on their way into the store: it remembers the texts of a night."""

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import (
    SERVER,
    Encoder,
    KnownEncoder,
    Vectors,
    describe_vectors,
    watch_encoding,
)
from slowwave.schemas.counters import Count
from slowwave.schemas.errors import (
    EncoderFailed,
    EncoderNotFound,
    EngineError,
    TextsRefused,
)
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import VECTOR, Table
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.progress import show_progress
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.vector_columns import build_vector_array, build_vector_matrix
from slowwave.text.foreign import find_repeated_parts


@cache
def load_shared_encoder(name: str) -> KnownEncoder:
    """Return the model, loaded once a process; what it encoded last is kept from batch to batch and step to step."""
    with show_progress("loading the encoder (once)"):
        return KnownEncoder(ShownEncoder(load_encoder(name)))


class ShownEncoder:
    """An encoder that shows how many of its texts are done: a batch of long ones takes seconds."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self.dim = encoder.dim
        self.encoder = encoder

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the encoder's vectors, shape (len(texts), dim)."""
        with (
            show_progress("encoding texts", len(texts)) as advance,
            watch_encoding(advance),
        ):
            return self.encoder.encode(texts)


def encode_shard(shard: pa.Table, *, encoder: str) -> pa.Table:
    """Return a shard's texts with their vectors."""
    vectors = load_shared_encoder(encoder).encode(shard["text"].to_pylist())
    return shard.append_column(ENCODED.field("vector"), build_vector_array(vectors))


class SpreadEncoder:
    """The encoder, asked by shards of the texts wherever the run's executor computes them."""

    def __init__(
        self,
        encoder: Encoder,
        setting: str,
        executor: Executor,
    ) -> None:
        self.name = encoder.name
        self.dim = encoder.dim
        self._executor = executor
        self._step = ShardStep(
            name="encode",
            settings=setting,
            schema=ENCODED,
            do=partial(encode_shard, encoder=setting),
            uses="encoder",
        )

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length a text, in order; shape (len(texts), dim)."""
        distinct = pa.table({"text": pa.array(list(dict.fromkeys(texts)), pa.string())})
        made = spread(
            executor=self._executor, step=self._step, rows=distinct, by="text"
        )
        places = {text: row for row, text in enumerate(made["text"].to_pylist())}
        matrix = build_vector_matrix(made["vector"])
        return (
            matrix[[places[text] for text in texts]]
            if texts
            else matrix.reshape(0, self.dim)
        )


ENCODED = pa.schema([("text", pa.string()), ("vector", VECTOR)])
_away: dict[str, str] = {}
"""Why the encoder could not be had, by run_id: it is looked for once a run, and what lacks a vector waits."""


def get_encoder_if_there(job: Job, report: StepReport) -> Encoder | None:
    """Return the encoder; None if embeddings are off, or if it can't be loaded in this run.

    The report then says so: what is made is made without vectors, which the next night adds.
    """
    if job.run_id in _away:
        _note_away(job, report)
        return None
    try:
        if not job.settings.embeddings:
            return None
        encoder = load_shared_encoder(job.settings.encoder)
        executor = get_encoder_executor(job)
        if executor is HERE:  # in one process, shards would only make batches smaller
            return encoder
        return SpreadEncoder(encoder, job.settings.encoder, executor)
    except (EncoderNotFound, EncoderFailed) as missing:
        give_up_encoder(job, report, missing)
        return None


def get_encoder_executor(job: Job) -> Executor:
    """Return where texts are encoded: a server's encoder is asked from here, wherever the rest is computed."""
    return HERE if job.settings.encoder.startswith(SERVER) else job.executor


def is_encoder_away(job: Job) -> bool:
    """Return True if the encoder was looked for in this run and could not be loaded."""
    return job.run_id in _away


def attach_vectors_if_there(
    job: Job,
    rows: pa.Table,
    column: str,
    report: StepReport,
) -> pa.Table:
    """Return the rows with `vector` filled from the text in `column`; as they are where the encoder can't be had."""
    encoder = get_encoder_if_there(job, report) if rows.num_rows else None
    try:
        return attach_vectors(
            store=job.store, rows=rows, column=column, encoder=encoder
        )
    except TextsRefused:
        raise  # these texts, not the encoder
    except EncoderFailed as gone:
        give_up_encoder(job, report, gone)
        return rows


def fill_missing_vectors(
    job: Job,
    table: Table,
    column: str,
    report: StepReport,
) -> list[str]:
    """Encode what an earlier night made while there was no encoder; return the keys of those rows."""
    if not job.settings.embeddings or not job.store.open_dataset(table).count_rows(
        filter="vector IS NULL"
    ):
        return []
    rows = job.store.read(table)
    rows = rows.filter(
        pc.and_(rows["vector"].is_null(), pc.not_equal(rows[column], ""))
    )
    filled = attach_vectors_if_there(job=job, rows=rows, column=column, report=report)
    filled = filled.filter(filled["vector"].is_valid())
    report.counts[Count.VECTORS_FILLED] += job.store.merge(table, filled)
    keys: list[str] = filled[table.key].to_pylist()
    return keys


def give_up_encoder(job: Job, report: StepReport, why: EngineError) -> None:
    """Go on without the encoder for the rest of the run, and say so in the report."""
    _away.clear()
    _away[job.run_id] = " ".join(str(why).split())
    _note_away(job, report)


def _note_away(job: Job, report: StepReport) -> None:
    note = f"{report.step} goes on without vectors, which the next night adds: {_away[job.run_id]}"
    if note not in report.failed:
        report.failed.append(note)


def describe_encoder(settings: Settings) -> str:
    """Return the encoder's part of step keys: its setting; for a server the model, wherever the server is."""
    return describe_vectors(settings.encoder) if settings.embeddings else "no vectors"


def attach_vectors(
    store: Store,
    rows: pa.Table,
    column: str,
    encoder: Encoder | None,
) -> pa.Table:
    """Return the rows with `vector` filled from the text in `column`; without encoder, as they are.

    The store takes their dimension; vectors of another one are dropped.
    """
    if encoder is None or rows.num_rows == 0:
        return rows
    if encoder.dim != store.dim:
        store.change_dim(encoder.dim)
    return add_vectors(rows, column, encoder)


def add_vectors(rows: pa.Table, column: str, encoder: Encoder) -> pa.Table:
    """Return the rows with `vector` filled from the text in `column`.

    A passage that repeats lines of earlier passages of its message, but for their figures, takes the mean of their
    vectors: a pasted log has thousands of them, and each would cost as much as a page of prose.
    """
    repeated = _find_repeated_passages(rows, column)
    texts = rows[column].to_pylist()
    read = [row for row in range(len(texts)) if row not in repeated]
    vectors = np.zeros((len(texts), encoder.dim), dtype=np.float32)
    vectors[read] = encode_as_kept([texts[row] for row in read], encoder)
    for row, sources in repeated.items():
        mean = vectors[sources].mean(axis=0)
        length = float(np.linalg.norm(mean))
        vectors[row] = round_as_kept(mean / length if length else mean)
    return rows.set_column(
        rows.schema.get_field_index("vector"),
        rows.schema.field("vector"),
        build_vector_array(vectors),
    )


def _find_repeated_passages(rows: pa.Table, column: str) -> dict[int, list[int]]:
    """Return the passages that only repeat others of their message, with these; of other tables nothing."""
    if not {"message_id", "part"} <= set(rows.schema.names):
        return {}
    order = pc.sort_indices(
        rows, [("message_id", "ascending"), ("part", "ascending")]
    ).to_pylist()
    ordered = rows.select([column, "message_id"]).take(pa.array(order, pa.int64()))
    repeated = find_repeated_parts(
        ordered[column].to_pylist(), ordered["message_id"].to_pylist()
    )
    return {
        order[row]: [order[source] for source in sources]
        for row, sources in repeated.items()
    }


def encode_as_kept(texts: Sequence[str], encoder: Encoder) -> Vectors:
    """Return the texts' vectors, rounded to the precision that they are kept at."""
    return round_as_kept(encoder.encode(texts))


def round_as_kept(vectors: Vectors) -> Vectors:
    """Return vectors rounded to the precision that they are kept at."""
    return vectors.astype(np.float16).astype(np.float32)
