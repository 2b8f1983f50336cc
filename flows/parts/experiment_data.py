"""What an experiment's memories are told and asked, out of LoCoMo's files, labelled transcripts, or one's own past."""

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import Vectors
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run, run_as_function, run_step
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXCLUSIONS, MERGES, MESSAGES, OBSERVATIONS, SESSIONS
from slowwave.schemas.vocabulary import LedgerKind, Origin
from slowwave.store.store import Store
from slowwave.tasks.experiment.definition import Experiment, compute_settings_key
from slowwave.tasks.experiment.past import Past, cut_vault, find_asking, find_questions, pick_cuts
from slowwave.tasks.experiment.questions import Unit, name_message, read_labelled, read_locomo
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.pending import read_spoken_messages


def load_units(experiment: Experiment, settings: Settings, folder: Path) -> tuple[list[Unit], Store | None]:
    """Return what memories are told and asked, and a store whose vectors they may have. A backtest has a unit a cut:
    what had been said before it, and what was asked in the days after.

    Raises:
        UsageError: nothing is asked there, or a backtest has no vectors, or no past.
    """
    data, whole = experiment.data, settings
    if data.kind == "locomo":
        return read_locomo(data.paths, data.foreign), None
    if data.paths:
        place = {"store": folder / f"read-{compute_settings_key(settings)[:12]}", "space": "default"}
        whole = settings.model_copy(update=place)
        if data.kind == "backtest":
            run_night(list(data.paths), whole).check_complete()
        else:
            with open_run("experiment", whole, create=True) as (job, report):
                run_step(run_as_function, report, read_transcripts, job, list(data.paths))
    store = Store.open(whole.store, whole.space)
    left_out = store.read(EXCLUSIONS, ["session_id"])["session_id"].combine_chunks()
    messages, sessions = (
        rows.filter(pc.invert(pc.is_in(rows["session_id"], left_out)))
        for rows in (store.read(MESSAGES), store.read(SESSIONS))
    )
    names = dict(zip(sessions["session_id"].to_pylist(), sessions["native_id"].to_pylist(), strict=True))
    if data.kind == "questions":
        told = pl.DataFrame(messages.select(["session_id", "native_id", "ts", "workspace"]))
        told = told.with_columns(pl.col("session_id").replace(names).alias("session"))
        asked = read_labelled([data.questions] if data.questions else data.paths, told)
        return [Unit("all", tuple(asked), messages, sessions, names)], store
    past = read_past(store, settings, names)
    cuts, units = pick_cuts(past.turns, data.cuts), list[Unit]()
    for cut, until in zip_longest(cuts, cuts[1:]):
        if found := find_questions(past, cut, data.horizon, data.near, until):
            units.append(Unit(f"{cut:%Y-%m-%d}", tuple(found), *cut_vault(messages, sessions, cut), names))
    if not units:
        raise UsageError("of what was said after each cut nothing is near what was said before: lower `near`, or wait")
    return units, store


def read_past(store: Store, settings: Settings, names: Mapping[str, str]) -> Past:
    """Return what was said, and what the nights of a store made of it.

    Raises:
        UsageError: its claims have no vectors.
    """
    said = read_spoken_messages(store, ["native_id", "origin", "role", "text", "ts", "workspace"])
    keys = said.select("session_id", "native_id").iter_rows()
    turns = said.with_columns(
        (pl.col("origin") == Origin.HUMAN).alias("person"),
        pl.Series("name", [name_message(names.get(session, session), one) for session, one in keys], pl.String),
    ).filter(pl.col("ts").is_not_null())
    columns = ["observation_id", "session_id", "message_ids", "quote", "summary", "status", "canonical_id"]
    rows = store.read(OBSERVATIONS, [*columns, "superseded_by", "observed_at", "vector"])
    rows = rows.filter(pc.is_valid(rows["vector"]))
    if not rows.num_rows or not settings.embeddings:
        raise UsageError("a backtest needs claims with vectors: `slowwave run` makes them")
    doubted = store.read(MERGES, ["loser_id", "winner_id", "undone"], pc.field("kind") == LedgerKind.DOUBT).to_pylist()
    asked = find_asking(turns)
    encoded: Iterable[Vectors] = load_query_encoder(settings.encoder).encode(list(asked.values())) if asked else ()
    return Past(
        turns,
        pl.DataFrame(rows.drop_columns(["vector"])).rename({"observed_at": "at"}),
        np.stack(rows["vector"].to_numpy(zero_copy_only=False)).astype(np.float32),
        frozenset((row["loser_id"], row["winner_id"]) for row in doubted if not row["undone"]),
        {message: (text, vector) for (message, text), vector in zip(asked.items(), encoded, strict=True)},
    )
