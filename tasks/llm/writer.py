"""The writer of a memory, which makes its claims, topics and summaries: the rules or a language model.

A memory has one writer, and a release names it. A run whose settings name another writer stops before it changes
anything, unless a rewrite was requested. Rewriting removes the claims, topics and summaries from the newest tables, and
the steps make them again as in a first run. Earlier releases keep their rows, so the live release answers until the
rewrite is complete. A mark in the store records that a rewrite is in progress. If a run is killed, loses its model or
spends its budget, the next run continues the rewrite.
"""

import pyarrow.compute as pc

from slowwave.engines.llm.select import select_llm
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import (
    CHAIN,
    CHECKS,
    CLAIMS,
    MARKS,
    MERGES,
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

WRITING: dict[ModelTask, str] = {
    "extract": "claims",
    "topics": "topics",
    "summaries": "summaries",
}
"""The tasks of a writer, and what each makes."""
STEP = "writer"
UNIT = "memory"
"""Step and unit of the mark that names the writer of a rewrite in progress."""
MARKED = ("observe", "chains", "relate", "checks", "assign", "rollup")
"""Steps whose marks are removed with a writer's rows."""
MADE = (CHECKS, RELATIONS, TOPICS, TOPIC_HISTORY, SUMMARIES, CLAIMS)
"""Tables that hold a writer's rows."""


def name_writer(settings: Settings) -> str:
    """Return the writer that the settings name: `rules`, a language model, or each task's writer if they differ.

    The name is that of the model. The engine, the server, prompts and sampling are not part of it. Only the first model
    of a chain counts, since the others replace it when it is down. The tasks of judging changes and of making gists do
    not count: judging writes no text, and nothing depends on gists.

    Raises:
        UsageError: the settings name an unknown engine.
    """
    chains = {
        what: select_llm(settings.get_llm(task), settings.model)
        for task, what in WRITING.items()
    }
    names = {what: chain.model if chain else RULES for what, chain in chains.items()}
    makers = [*dict.fromkeys(names.values())]
    return (
        makers[0]
        if len(makers) == 1
        else ", ".join(f"{what} by {name}" for what, name in names.items())
    )


def asks_model(settings: Settings) -> bool:
    """Return True if a language model makes any of the claims, topics and summaries."""
    return any(settings.get_llm(task) != "off" for task in WRITING)


def find_rewriter(store: Store) -> str | None:
    """Return the writer of a rewrite (or first write) in progress, or None."""
    marks = store.read_ids(MARKS, [compute_content_id(STEP, UNIT)], ["input_key"])
    return marks["input_key"].to_pylist()[0] if marks.num_rows else None


def find_writer(store: Store) -> str | None:
    """Return the writer of the newest tables: of a rewrite in progress, else of the last release. None if the memory is
    empty.
    """
    return find_rewriter(store) or find_released_writer(store)


def settle_writer(job: Job, *, rewrite: bool = False) -> list[str]:
    """Check that the settings name the memory's writer. With `rewrite`, start a rewrite by the writer that they name.

    Returns notes for the run's report.

    Raises:
        UsageError: the settings name another writer. Nothing has been changed.
    """
    store = job.store
    now = find_writer(job.store)
    writer = name_writer(job.settings)
    released = find_released_writer(store)
    if now != writer:
        if released and not rewrite:
            raise UsageError(
                explain_other_writer(
                    now or released, writer, is_rewritten=now != released
                )
            )
        if now:
            clear_written(store)
        mark_done(store, STEP, [(UNIT, writer, None)])
    if released and (now != writer or find_rewriter(store)):
        return [
            f"{writer} is rewriting the memory: the release before answers until that is done"
        ]
    return []


def explain_other_writer(now: str, named: str, *, is_rewritten: bool = False) -> str:
    """Return one line that says why the run stops and how to continue."""
    how = "is being rewritten by" if is_rewritten else "was written by"
    return (
        f"this memory {how} {now}, and the settings name {named}: name its writer (llm, SLOWWAVE_LLM or --llm), or "
        f"have {named} rewrite it: `slowwave run --rewrite`"
    )


def clear_written(store: Store) -> None:
    """Remove a writer's rows from the newest tables. Marks go first, so after a kill the next run makes the rows again.

    A person's decisions stay: exclusions, and merges that were undone.
    """
    marks = store.read(MARKS, [MARKS.key], pc.field("step").isin(MARKED))
    store.delete_ids(MARKS, marks[MARKS.key].to_pylist())
    chained = store.read(
        PASSAGES, [PASSAGES.key, *CHAIN], pc.field("chain_id").is_valid()
    )
    store.update(PASSAGES, set_columns(chained, **dict.fromkeys(CHAIN)))
    merges = store.read(MERGES, [MERGES.key], pc.field("undone") == pc.scalar(False))
    store.delete_ids(MERGES, merges[MERGES.key].to_pylist())
    for step in WRITERS:  # the rejected rows were the other writer's
        update_quarantine(store=store, step=step, rows=(), is_settled=lambda row: True)
    for table in MADE:
        store.delete_ids(table, store.read(table, [table.key])[table.key].to_pylist())


def end_rewrite(store: Store) -> None:
    """Remove the mark of the rewrite. The release names the writer from now on."""
    store.delete_ids(MARKS, [compute_content_id(STEP, UNIT)])
