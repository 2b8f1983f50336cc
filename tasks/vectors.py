"""The process's encoder, and vectors for rows on their way into the store: a distinct text is encoded once, ever."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import SERVER, Encoder, Vectors, hide_url
from slowwave.engines.errors import EncoderFailed, EncoderNotFound, EngineError, TextsRefused, WrongDimension
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import VECTOR, VECTORS, Table
from slowwave.store.store import Store
from slowwave.tasks.gists.keywords import NgramVectors
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.vector_columns import build_vector_array, build_vector_matrix


@cache
def load_shared_encoder(name: str) -> Encoder:
    """Return the model, loaded once a process."""
    return load_encoder(name)


@cache
def load_shared_ngrams(name: str) -> NgramVectors:
    """Return n-gram vectors of the process's encoder, kept from batch to batch."""
    return NgramVectors(load_shared_encoder(name))


def encode_shard(shard: pa.Table, *, encoder: str) -> pa.Table:
    """Return rows of `vectors` for a shard's texts; columns vector_id and text."""
    model = load_shared_encoder(encoder)
    return _build_vector_rows(shard["vector_id"].to_pylist(), model.name, model.encode(shard["text"].to_pylist()))


class SpreadEncoder:
    """The encoder, asked by shards of the texts wherever the run's executor computes them."""

    def __init__(self, encoder: Encoder, setting: str, executor: Executor) -> None:
        self.name, self.dim = encoder.name, encoder.dim
        self._executor = executor
        self._step = ShardStep("encode", setting, VECTORS.schema, partial(encode_shard, encoder=setting), "encoder")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length a text, in order; shape (len(texts), dim)."""
        distinct = {text: compute_vector_id(self.name, text) for text in texts}
        rows = pa.table({"vector_id": list(distinct.values()), "text": list(distinct)}, pa.schema(TEXT))
        made = spread(self._executor, self._step, rows, "vector_id")
        places = {key: row for row, key in enumerate(made["vector_id"].to_pylist())}
        matrix = build_vector_matrix(made["vector"])
        return matrix[[places[distinct[text]] for text in texts]] if texts else matrix.reshape(0, self.dim)


TEXT = [("vector_id", pa.string()), ("text", pa.string())]
_away: dict[str, str] = {}
"""Why the encoder could not be had, by run_id: it is looked for once a run, and what lacks a vector waits."""


def get_encoder_if_there(job: Job, report: StepReport) -> Encoder | None:
    """Return the encoder; None where embeddings are off, or where it can't be had this run.

    The report then says so: what is made is made without vectors, which the next night adds.
    """
    if job.run_id in _away:
        _note_away(job, report)
        return None
    try:
        if not job.settings.embeddings:
            return None
        encoder, executor = load_shared_encoder(job.settings.encoder), get_encoder_executor(job)
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
    """Return whether the encoder was looked for in this run and could not be had."""
    return job.run_id in _away


def attach_vectors_if_there(job: Job, rows: pa.Table, column: str, report: StepReport) -> pa.Table:
    """Return the rows with `vector` filled from the text in `column`; as they are where the encoder can't be had.

    Raises:
        WrongDimension: the encoder's vectors do not fit those that the store has.
    """
    encoder = get_encoder_if_there(job, report) if rows.num_rows else None
    try:
        return attach_vectors(job.store, rows, column, encoder)
    except TextsRefused:
        raise  # these texts, not the encoder
    except EncoderFailed as gone:
        give_up_encoder(job, report, gone)
        return rows


def fill_missing_vectors(job: Job, table: Table, column: str, report: StepReport) -> list[str]:
    """Encode what an earlier night made while there was no encoder; return the keys of those rows."""
    if not job.settings.embeddings or not job.store.open_dataset(table).count_rows(filter="vector IS NULL"):
        return []
    rows = job.store.read(table)
    rows = rows.filter(pc.and_(rows["vector"].is_null(), pc.not_equal(rows[column], "")))
    filled = attach_vectors_if_there(job, rows, column, report)
    filled = filled.filter(filled["vector"].is_valid())
    report.counts["vectors made up for"] += job.store.merge(table, filled)
    keys: list[str] = filled[table.key].to_pylist()
    return keys


def give_up_encoder(job: Job, report: StepReport, why: EngineError) -> None:
    """Go on without the encoder for the rest of the run, and say so in the report."""
    _away.clear()
    _away[job.run_id] = str(why).splitlines()[0]
    _note_away(job, report)


def _note_away(job: Job, report: StepReport) -> None:
    told = f"{report.step} goes on without vectors, which the next night adds: {_away[job.run_id]}"
    if told not in report.failed:
        report.failed.append(told)


def describe_encoder(settings: Settings) -> str:
    """Return what step keys know of the encoder: its setting, of a server's the model, wherever the server stands."""
    return hide_url(settings.encoder) if settings.embeddings else "no vectors"


def attach_vectors(store: Store, rows: pa.Table, column: str, encoder: Encoder | None) -> pa.Table:
    """Return the rows with `vector` filled from the text in `column`.

    New vectors are stored first; the first of all bind the store to their dimension. Without encoder: as is.

    Raises:
        WrongDimension: the encoder's vectors do not fit those that the store has.
    """
    if encoder is None or rows.num_rows == 0:
        return rows
    if encoder.dim != store.dim:
        if store.count(VECTORS):
            raise WrongDimension(encoder.name, encoder.dim, store.dim)
        store.change_dim(encoder.dim)
    texts: list[str] = rows.column(column).to_pylist()
    known = store.read_ids(VECTORS, compute_vector_ids(texts, encoder.name))
    encoded = encode_once(texts, encoder, known)
    store.append(VECTORS, encoded.new)
    return add_vectors(rows, encoded.vectors)


class Encoded(NamedTuple):
    """Vectors of some texts, and the rows that the store lacks."""

    vectors: Vectors
    """One row a text, in their order; shape (len(texts), dim)."""
    new: pa.Table
    """Rows for the `vectors` table: what was encoded now."""


def compute_vector_id(model: str, text: str) -> str:
    """Return key of a text's vector in the `vectors` table."""
    return compute_content_id(model, text)


def compute_vector_ids(texts: Iterable[str], model: str) -> list[str]:
    """Return keys of the distinct texts' vectors, in order of first appearance: the ones to read from the store."""
    return [compute_vector_id(model, text) for text in dict.fromkeys(texts)]


def encode_once(texts: Sequence[str], encoder: Encoder, known: pa.Table | None = None) -> Encoded:
    """Return vectors of all `texts`; the encoder is asked only for distinct texts that `known` lacks, in one call.

    Args:
        texts: any strings, repeats welcome.
        encoder: makes unit vectors.
        known: rows of `vectors`. Other rows do no harm.
    """
    ids = {text: compute_vector_id(encoder.name, text) for text in texts}
    found = known if known is not None else VECTORS.schema.empty_table()
    by_id = dict(zip(found["vector_id"].to_pylist(), build_vector_matrix(found["vector"]), strict=True))
    missing = {key: text for text, key in ids.items() if key not in by_id}
    made = np.zeros((0, encoder.dim), dtype=np.float32)
    if missing:
        made = encoder.encode([*missing.values()]).astype(np.float16).astype(np.float32)  # as they are kept
    by_id |= dict(zip(missing, made, strict=True))
    vectors = np.array([by_id[ids[text]] for text in texts], dtype=np.float32).reshape(len(texts), encoder.dim)
    return Encoded(vectors, _build_vector_rows([*missing], encoder.name, made))


def add_vectors(table: pa.Table, vectors: Vectors) -> pa.Table:
    """Return `table` with its column `vector` set to one of these a row."""
    column, place = build_vector_array(vectors), table.schema.get_field_index("vector")
    if place < 0:
        return table.append_column(pa.field("vector", VECTOR), column)
    return table.set_column(place, table.schema.field(place), column)


def _build_vector_rows(ids: list[str], model: str, vectors: Vectors) -> pa.Table:
    """Return rows of the `vectors` table."""
    columns = [pa.array(ids, pa.string()), pa.array([model] * len(ids), pa.string()), build_vector_array(vectors)]
    return pa.Table.from_arrays(columns, schema=VECTORS.schema)
