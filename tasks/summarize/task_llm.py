"""Summaries written by the language model, one batch a tier over all topics and sessions; and how they stand on what
the store has of their members.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slowwave.engines.llm.protocol import Completion, EngineUnavailable
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, PASSAGES, SUMMARIES, Table
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, is_model_key
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.summarize.coherence import Coherence, Shown, measure_coherence
from slowwave.tasks.summarize.narrate import TopicInfo, build_summary_request, format_summary_id, parse_summary
from slowwave.text.pyramid import MASTER, Draft, summarize_draft

MEASURED = ["summary_id", "scope", "scope_id", "tier", "seq", "text", "member_ids", "vector"]
"""Columns of SUMMARIES by which their coherence is measured."""


class SummaryWriter:
    """Writes drafts' summaries; keeps the titles, and what could not be used, for whoever stores them."""

    def __init__(self, job: Job, model: Model, report: StepReport, topics: Mapping[str, TopicInfo]) -> None:
        self.model, self.report, self.topics = model, report, topics
        self.get_words = job.settings.pyramid.get_words
        self.titles: dict[str, str] = {}
        """Session to the title of its master summary."""
        self.written: set[str] = set()
        """Requests whose answer is a summary now."""
        self.rejected: list[Rejected] = []
        self.settled: set[str] = set()
        """Requests that were answered well."""

    def write(self, drafts: list[Draft]) -> list[str | None]:
        """Return a text for each draft: the model's, or an extractive one where it failed.

        None where it has to wait, or where a model's words stand.
        """
        answers = self._request_summaries(drafts)
        return [self._resolve_text(draft, answers[format_summary_id(draft)]) for draft in drafts]

    def _request_summaries(self, drafts: Sequence[Draft]) -> Mapping[str, Completion]:
        model = self.model
        try:
            window = model.llm.context_window
            requests = [
                build_summary_request(
                    d, self._get_topic_info(d), self.get_words(d.tier), model.library, model.count, window
                )
                for d in drafts
            ]
        except EngineUnavailable as error:
            return {format_summary_id(d): _make_unavailable(format_summary_id(d), error) for d in drafts}
        return model.ask(requests, "summaries")

    def _get_topic_info(self, draft: Draft) -> TopicInfo | None:
        if draft.scope != SummaryScope.TOPIC:
            return None
        return self.topics.get(draft.scope_id) or TopicInfo("unnamed", "what its entries have in common")

    def _resolve_text(self, draft: Draft, completion: Completion) -> str | None:
        if self.model.is_postponed(completion):
            self.report.counts["summaries left for another night"] += 1
            if completion.error != "budget":
                self._reject(completion)
            return None
        max_words = self.get_words(draft.tier)
        account = parse_summary(completion, max_words) if completion.ok else None
        if account is None:
            self._reject(completion)
            if draft.previous and is_model_key(draft.previous.key):
                return None
            self.report.counts["summaries made without the model"] += 1
            return summarize_draft(draft, max_words)
        self.settled.add(completion.id)
        self.report.counts["summaries by the model"] += 1
        self.written.add(completion.id)
        if draft.tier == MASTER and account.title:
            self.titles[draft.scope_id] = account.title
        return account.text

    def _reject(self, completion: Completion) -> None:
        reason = f"{completion.error}: {completion.reason}" if completion.error else "the answer is no summary"
        self.rejected.append(Rejected(completion.id, reason, completion.text))


def _make_unavailable(request_id: str, error: EngineUnavailable) -> Completion:
    return Completion(request_id, error="unavailable", reason=str(error), finish_reason="error")


def measure_summaries(store: Store, rows: Sequence[Mapping[str, Any]], window: int) -> list[Coherence]:
    """Return how some rows of SUMMARIES stand on their members, each with its vector as it is stored.

    Of a session the `window` messages before a group's first count as read along with it.
    """
    of_topics = [m for row in rows if row["scope"] == SummaryScope.TOPIC for m in row["member_ids"]]
    sessions = {row["scope_id"] for row in rows if row["scope"] == SummaryScope.SESSION}
    held = _read_shown(store, SUMMARIES, [m for row in rows for m in row["member_ids"]], "text", "first_at")
    claims = _read_shown(store, OBSERVATIONS, of_topics, "summary", "observed_at", "speaker")
    columns = ["message_id", "session_id", "text", "speaker", "ts"]
    said = store.read_ids(MESSAGES, sessions, [*columns, "seq"], "session_id").sort_by("seq").to_pylist()
    wanted = {m for row in rows for m in row["member_ids"]}
    vectors = defaultdict(list)
    for part in store.read_ids(PASSAGES, sessions, ["message_id", "vector"], "session_id").to_pylist():
        if part["message_id"] in wanted and part["vector"] is not None:
            vectors[part["message_id"]].append(part["vector"])
    told: dict[str, Shown] = {}
    talk: defaultdict[str, list[str]] = defaultdict(list)
    earlier: dict[str, str] = {}
    for row in said:
        if row["text"]:
            mine = vectors.get(row["message_id"])
            vector = None if mine is None else np.asarray(mine, dtype=np.float64).mean(axis=0).astype(np.float32)
            told[row["message_id"]] = Shown(row["text"], row["speaker"], row["ts"], vector)
            before = talk[row["session_id"]]
            earlier[row["message_id"]] = "\n".join(before[-window:]) if window else ""
            before.append(f"{row['speaker'] or ''}: {row['text']}")
    before_groups = {row["summary_id"]: earlier.get(row["member_ids"][0], "") for row in rows if row["member_ids"]}
    return measure_coherence(rows, held | claims | told, before_groups)


def _read_shown(
    store: Store, table: Table, ids: Iterable[str], text: str, at: str, speaker: str | None = None
) -> dict[str, Shown]:
    columns = [table.key, text, at, "vector", *([speaker] if speaker else [])]
    rows: pa.Table = store.read_ids(table, ids, columns)
    return {
        row[table.key]: Shown(row[text], row[speaker] if speaker else None, row[at], row["vector"])
        for row in rows.to_pylist()
    }
