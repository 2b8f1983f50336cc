"""The writer of a memory: who makes its claims, topics and summaries. A memory has one.

A release names its writer. A run whose settings name another one stops before it changes anything, unless it is told
to rewrite. Rewriting removes the claims, topics and summaries from the newest tables, and the steps make them anew as
on a first night; the releases before keep theirs, so the live one answers until the new writer is through. A mark in
the store says that this is under way: a night that follows goes on with it, whether the run was killed, the model went
down or its budget was spent.
"""

import pyarrow.compute as pc

from slowwave.engines.llm.select import select_llm
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import (
    CHAIN,
    MARKS,
    MERGES,
    OBSERVATIONS,
    PASSAGES,
    RELATIONS,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
)
from slowwave.schemas.vocabulary import RULES, WRITERS
from slowwave.store.publishing import find_writer as find_released_writer
from slowwave.store.store import Store
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.job import Job
from slowwave.tasks.pending import mark_done
from slowwave.tasks.quarantine import update_quarantine

WRITING: dict[ModelTask, str] = {"extract": "claims", "topics": "topics", "summaries": "summaries"}
"""A writer's tasks, each with what it makes."""
STEP, UNIT = "writer", "memory"
"""Step and unit of the mark that names the writer of a memory that is being written whole."""
MARKED = ("observe", "chains", "relate", "assign", "rollup")
"""Steps whose marks go with the rows of a writer."""
MADE = (RELATIONS, TOPICS, TOPIC_HISTORY, SUMMARIES, OBSERVATIONS)
"""Tables of a writer's rows."""


def name_writer(settings: Settings) -> str:
    """Return the writer that settings name: `rules`, a language model, or who makes what where these differ.

    A writer makes claims, topics and summaries. It is named by its model, not by the engine or the server that runs it,
    nor by prompts or sampling: with the same model elsewhere it is the same writer. Of a chain the first model counts,
    since the later ones only stand in for it. Who judges which claim a later one changes is no part of it: it writes no
    text, and the classifier decides where it does not answer. Neither is who makes gists: nothing rests on them.

    Raises:
        UsageError: settings name no engine there is.
    """
    chains = {what: select_llm(settings.get_llm(task), settings.model) for task, what in WRITING.items()}
    names = {what: chain.model if chain else RULES for what, chain in chains.items()}
    makers = [*dict.fromkeys(names.values())]
    return makers[0] if len(makers) == 1 else ", ".join(f"{what} by {name}" for what, name in names.items())


def asks_model(settings: Settings) -> bool:
    """Return True if a language model makes any of the claims, topics and summaries."""
    return any(settings.get_llm(task) != "off" for task in WRITING)


def find_rewriter(store: Store) -> str | None:
    """Return the writer of a memory that is being written whole, for the first time or anew; None if none is."""
    marks = store.read_ids(MARKS, [compute_content_id(STEP, UNIT)], ["input_key"])
    return marks["input_key"].to_pylist()[0] if marks.num_rows else None


def find_writer(store: Store) -> str | None:
    """Return the writer of the newest tables: of what is being written, else of the last release; None of no memory."""
    return find_rewriter(store) or find_released_writer(store)


def settle_writer(job: Job, *, rewrite: bool = False) -> list[str]:
    """Check that the run's settings name the memory's writer; with `rewrite`, make the memory that writer's.

    Returns what is to be noted.

    Raises:
        UsageError: they name another one. Nothing is changed then.
    """
    store, now, writer = job.store, find_writer(job.store), name_writer(job.settings)
    released = find_released_writer(store)
    if now != writer:
        if released and not rewrite:
            raise UsageError(explain_other_writer(now or released, writer, is_rewritten=now != released))
        if now:
            clear_written(store)
        mark_done(store, STEP, [(UNIT, writer, None)])
    if released and (now != writer or find_rewriter(store)):
        return [f"the memory is written anew by {writer}: the release before answers until that is done"]
    return []


def explain_other_writer(now: str, named: str, *, is_rewritten: bool = False) -> str:
    """Return in one line why a run stops, and what to do."""
    how = "is being rewritten by" if is_rewritten else "was written by"
    return (
        f"this memory {how} {now}, and the settings name {named}: name its writer (llm, SLOWWAVE_LLM or --llm), or "
        f"have it written anew by {named}: `slowwave run --rewrite`"
    )


def clear_written(store: Store) -> None:
    """Remove a writer's rows from the newest tables, the marks first: killed anywhere, the next night makes them anew.

    What a person decided stays: exclusions, and merges that were taken apart.
    """
    marks = store.read(MARKS, [MARKS.key], pc.field("step").isin(MARKED))
    store.delete_ids(MARKS, marks[MARKS.key].to_pylist())
    chained = store.read(PASSAGES, [PASSAGES.key, *CHAIN], pc.field("chain_id").is_valid())
    store.update(PASSAGES, set_columns(chained, **dict.fromkeys(CHAIN)))
    merges = store.read(MERGES, [MERGES.key], pc.field("undone") == pc.scalar(False))
    store.delete_ids(MERGES, merges[MERGES.key].to_pylist())
    for step in WRITERS:  # what could not be used was the other writer's
        update_quarantine(store, step, (), lambda row: True)
    for table in MADE:
        store.delete_ids(table, store.read(table, [table.key])[table.key].to_pylist())


def end_rewrite(store: Store) -> None:
    """Forget that the memory is being written whole: its release names the writer."""
    store.delete_ids(MARKS, [compute_content_id(STEP, UNIT)])
