"""Summaries written by the language model, one batch a tier over all topics and sessions."""

from collections.abc import Mapping, Sequence

from slowwave.engines.llm.protocol import Completion, EngineUnavailable
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.tasks.job import Job, StepReport, is_model_key
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.summarize.coherence import Coherence, measure_coherence
from slowwave.tasks.summarize.narrate import TopicInfo, build_summary_request, format_summary_id, parse_summary
from slowwave.text.pyramid import MASTER, Draft, summarize_draft


class SummaryWriter:
    """Writes drafts' summaries; keeps the titles, and what could not be used, for whoever stores them."""

    def __init__(self, job: Job, model: Model, report: StepReport, topics: Mapping[str, TopicInfo]) -> None:
        self.model, self.report, self.topics = model, report, topics
        self.max_words = job.settings.pyramid.max_words
        self.titles: dict[str, str] = {}
        """Session to the title of its master summary."""
        self.coherence: list[Coherence] = []
        """Of each summary that the model wrote."""
        self.likeness: list[float] = []
        """Of those over summaries, to these."""
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
                build_summary_request(d, self._get_topic_info(d), self.max_words, model.library, model.count, window)
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
        account = parse_summary(completion, self.max_words) if completion.ok else None
        if account is None:
            self._reject(completion)
            if draft.previous and is_model_key(draft.previous.key):
                return None
            self.report.counts["summaries made without the model"] += 1
            return summarize_draft(draft, self.max_words)
        self.settled.add(completion.id)
        self.report.counts["summaries by the model"] += 1
        self.coherence.append(measure_coherence(draft, account.text))
        if draft.tier == MASTER and account.title:
            self.titles[draft.scope_id] = account.title
        return account.text

    def _reject(self, completion: Completion) -> None:
        reason = f"{completion.error}: {completion.reason}" if completion.error else "the answer is no summary"
        self.rejected.append(Rejected(completion.id, reason, completion.text))


def _make_unavailable(request_id: str, error: EngineUnavailable) -> Completion:
    return Completion(request_id, error="unavailable", reason=str(error), finish_reason="error")
