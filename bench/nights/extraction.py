"""What extraction keeps of LoCoMo's conversations: any language model beside the extractive observer.

    python -m bench.nights.extraction locomo_open.json --llm vllm:MODEL [--llm openai:MODEL@URL] [--sessions 6] [--json]

Columns: *evidence*, of the turns that answer some question the share that some claim cites; *words*, words of claims
over words said; *answers*, the share of the answers' content words that stand in some claim; *quotes*, the share of
the model's claims whose quote stands in its messages; then claims kept and rejected, tokens and seconds. With
`--sessions N` N random sessions (the same on every run) are read, and questions count whose evidence lies in them
alone. Both methods read the same sessions. `--cache FILE` keeps answers between runs.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.harness import build_parser, print_rows
from bench.nights.observe import Claim, collect_llm_facts, observe_claims, score_claims
from bench.recall.locomo_files import Conversation, build_message_rows, load_conversations
from slowwave.engines.llm.budget import MeteredLLM
from slowwave.engines.llm.cache import DictCache, build_completion_rows, parse_completion_rows
from slowwave.engines.llm.select import select_llm
from slowwave.schemas.settings import ExtractSettings, LLMSettings, ObserveSettings, Settings
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.library import Library
from slowwave.tasks.observe.by_model import ExtractionResult, extract_claims


@dataclass
class Result:
    """One method over the sessions."""

    method: str
    evidence: float
    answers: float
    words: float
    cited: float
    claims: int
    quotes: float | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cached: int = 0
    seconds: float = 0.0


def sample_conversations(found: Sequence[Conversation], sessions: int | None) -> list[Conversation]:
    """Return the conversations cut down to some random sessions, and to the questions these sessions answer."""
    if sessions is None:
        return list(found)
    all_of = [(c.id, n) for c in found for n in sorted({t.session for t in c.turns})]
    kept = set(random.Random(0).sample(all_of, min(sessions, len(all_of))))
    return [cut for c in found if (cut := _restrict_sessions(c, {n for cid, n in kept if cid == c.id})).turns]


def _restrict_sessions(c: Conversation, sessions: set[int]) -> Conversation:
    turns = tuple(t for t in c.turns if t.session in sessions)
    known = {t.id for t in turns}
    questions = tuple(q for q in c.questions if q.evidence and set(q.evidence) <= known)
    facts = tuple(f for f in c.facts if f.turns and set(f.turns) <= known)
    return c._replace(turns=turns, questions=questions, facts=facts)


def extract_with_model(spec: str, found: Sequence[Conversation], settings: Settings, cache: DictCache) -> Result:
    """Return a language model over the conversations."""
    chain = select_llm(spec, settings.model, cache)
    if chain is None:
        raise SystemExit(f"--llm {spec}: a language model was expected")
    model = Model(chain, MeteredLLM(chain), Library(settings.extract.prompts))
    start, done = time.perf_counter(), []
    try:
        for conversation in found:
            done.append(
                (conversation, extract_claims(build_message_rows(conversation), settings, model, StepReport("observe")))
            )
    finally:
        model.close()
    result = _average_scores(f"{chain.name} {chain.model}", [(c, _build_claims(d.claims)) for c, d in done])
    result.seconds = time.perf_counter() - start
    for usage in model.llm.take_usage():
        result.prompt_tokens += usage.prompt_tokens
        result.answer_tokens += usage.completion_tokens
        result.cached += usage.cached
    return _add_rejections(result, [d for _, d in done])


def _add_rejections(result: Result, done: Sequence[ExtractionResult]) -> Result:
    """Return the result with what was rejected, by reason, and the share of claims whose quote stood."""
    reasons: Counter[str] = Counter()
    for one in done:
        reasons.update(_shorten_reason(r.reason) for r in one.rejected)
        reasons.update(f"pending: {_shorten_reason(why)}" for why in one.pending.values())
    unfounded = sum(n for why, n in reasons.items() if "quote" in why or why.startswith("cites no message"))
    result.rejected = dict(reasons.most_common())
    result.quotes = result.claims / (result.claims + unfounded) if result.claims + unfounded else None
    return result


def _shorten_reason(reason: str) -> str:
    """Return a reason without what is particular to one claim."""
    return (
        reason.split(":")[0].split(" within its session")[0].split(" 0x")[0][:60].rsplit("repeats ", 1)[0] or "repeats"
    )


def _build_claims(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    return [Claim(f"{c['summary']} {c['detail'] or ''}".strip(), tuple(c["message_ids"])) for c in rows]


def _average_scores(method: str, done: Sequence[tuple[Conversation, list[Claim]]]) -> Result:
    """Return means over the conversations, each weighted by its words."""
    scores = [score_claims(method, c, claims) for c, claims in done]
    weights = [sum(len(t.text.split()) for t in c.turns) for c, _ in done]

    def mean(values: Sequence[float]) -> float:
        known = [(v, w) for v, w in zip(values, weights, strict=True) if v == v]
        return sum(v * w for v, w in known) / sum(w for _, w in known) if known else float("nan")

    evidence, answers, words, cited = (
        mean([getattr(s, name) for s in scores]) for name in ("evidence", "answers", "words", "cited")
    )
    return Result(method, evidence, answers, words, cited, claims=sum(len(claims) for _, claims in done))


def load_cached_answers(path: Path | None) -> DictCache:
    """Return answers kept by an earlier run, in Parquet."""
    cache = DictCache()
    if path and path.is_file():
        cache.kept = parse_completion_rows(pq.read_table(path))
    return cache


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "locomo")
    parser.add_argument("--llm", action="append", default=[], help="an engine, as in SLOWWAVE_LLM; may be repeated")
    parser.add_argument("--sessions", type=int, help="random sessions to read (default: all)")
    parser.add_argument("--window", type=int, help="the model's context window, in tokens")
    parser.add_argument("--chunk", type=int, default=ExtractSettings().chunk_tokens, help="transcript tokens a prompt")
    parser.add_argument("--answer", type=int, default=ExtractSettings().answer_tokens, help="answer tokens a prompt")
    parser.add_argument("--cache", type=Path, help="file that keeps answers between runs")
    given = parser.parse_args()
    found, cache = (
        sample_conversations(load_conversations(given.locomo), given.sessions),
        load_cached_answers(given.cache),
    )
    share = ObserveSettings().max_share
    results = [_average_scores("extractive", [(c, observe_claims(c, share)[0]) for c in found])]
    results.append(_average_scores("LoCoMo's LLM facts", [(c, collect_llm_facts(c)) for c in found]))
    extract = ExtractSettings(chunk_tokens=given.chunk, answer_tokens=given.answer)
    settings = Settings(
        model=LLMSettings(context_window=given.window), extract=extract, observe=ObserveSettings(pack="personal")
    )
    for spec in given.llm:
        results.append(extract_with_model(spec, found, settings, cache))
        if given.cache:
            pq.write_table(build_completion_rows(cache.kept), given.cache)
    rows = [{**asdict(result), "rejected": str(result.rejected)} for result in results]
    print_rows(rows, given.as_json)


if __name__ == "__main__":
    main()
