"""What of a long conversation's evidence reaches the prompt: the latest turns, cosine, slowwave's active memory in
`talk` and in a block of `context(conversation=…)`.

    python -m bench.recall.active FILE [--budget TOKENS ...] [--encoder NAME] [--json]

FILE is LoCoMo's; or questions over `data/samples` (`.toml`), whose transcripts are told as one conversation in order of
time. All turns of a conversation are told, then each question is asked; a turn counts where it stands in the prompt
whole (of the samples one of those that answer, or the sentence that does). Beside it: facts told 20, 100 and 500 turns
before they are asked for, how much more evidence the turns kept at half and at a quarter of the capacity hold than as
many drawn by chance, and what a turn costs early and late. About a minute a conversation on one core, nearly all
of it the encoder's.
"""

import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np

from bench.harness import build_parser, print_rows
from bench.nights.draw_sentences import read_shown_messages
from bench.recall.locomo_files import Conversation, Question, Turn, load_conversations
from slowwave.chat.turns import Turns
from slowwave.context.active import ActiveMemory
from slowwave.context.build import assemble_context
from slowwave.context.tokens import load_tokenizer
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder, KnownEncoder
from slowwave.schemas.settings import ActiveSettings, ContextSettings, Settings
from slowwave.schemas.vocabulary import is_turn

SYSTEMS = ("latest turns", "cosine", "cosine and latest turns", "slowwave", "a block")
FACTS = (
    ("My bicycle lock's code is 4471.", "What is the code of my bicycle lock?"),
    ("The plumber comes on the ninth of March.", "On which day does the plumber come?"),
    ("Our landlord is called Mrs Oyelaran.", "What is our landlord called?"),
    ("I keep the spare key under the blue flower pot.", "Where do I keep the spare key?"),
    ("The cat takes half a tablet of thyroxine.", "How much thyroxine does the cat take?"),
)
BACK = (20, 100, 500)
CAPACITIES = (0.5, 0.25)

Count = Callable[[Sequence[str]], list[int]]


def load_samples(path: Path) -> Conversation:
    """Return all that is said in the transcripts beside a file of questions, oldest first, and the questions."""
    rows = read_shown_messages([path.parent / "samples"]).sort_by([("ts", "ascending"), ("seq", "ascending")])
    said = [row for row in rows.to_pylist() if is_turn(row) and row["ts"]]
    turns = [Turn(row["message_id"], 0, row["speaker"] or row["role"], row["whole"], row["ts"]) for row in said]
    asked = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
    told = [(one, tuple(turn.id for turn in turns if one["expect"] in turn.text)) for one in asked]
    questions = tuple(Question(one["question"], one["expect"], 0, evidence) for one, evidence in told)
    return Conversation("samples", tuple(turns), questions, ())


def measure_conversation(
    one: Conversation, encoder: Encoder, budgets: Sequence[int], count: Count
) -> list[dict[str, object]]:
    """Return the figures of one conversation, in percent, a row a budget."""
    told = [(turn.speaker, turn.text) for turn in one.turns]
    asked = [question for question in one.questions if question.evidence]
    known = KnownEncoder(encoder, [f"{who}: {text}" for who, text in told] + [question.text for question in asked])
    facts = {back: _count_facts(told, back, known, min(budgets), count) for back in BACK if back < len(told)}
    kept = {f"kept over chance, {share:.0%}": _measure_pruning(one, asked, known, share) for share in CAPACITIES}
    return [
        {
            "conversation": one.id,
            "tokens": budget,
            **_measure_evidence(one, asked, known, budget, count),
            "facts back, of 5": str(facts),
            **kept,
        }
        for budget in budgets
    ]


def _tell(told: Sequence[tuple[str, str]], encoder: Encoder, count: Count) -> Turns:
    turns = Turns(Settings(), count, encoder)
    for speaker, text in told:
        turns.add(speaker, text)
    return turns


def _measure_evidence(
    one: Conversation, asked: Sequence[Question], encoder: KnownEncoder, budget: int, count: Count
) -> dict[str, float]:
    """Return each system's mean share of the evidence."""
    texts = [f"{turn.speaker}: {turn.text}" for turn in one.turns]
    tokens, vectors = count(texts), encoder.encode(texts)
    places = {turn.id: at for at, turn in enumerate(one.turns)}
    spoken = [(turn.speaker, turn.text) for turn in one.turns]
    turns = _tell(spoken, encoder, count)
    of_samples = not any(question.category for question in asked)
    newest = list(reversed(range(len(texts))))
    recent = newest[: turns.settings.recent]
    found: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for question in asked:
        nearest = np.argsort(-(vectors @ encoder.encode([question.text])[0]), kind="stable").tolist()
        told = turns.recall(question.text, budget)
        holds = {shown.trace.number for shown in told.shown if of_samples and question.answer in shown.text}
        whole = holds | {shown.trace.number for shown in told.shown if not shown.shortened}
        block = assemble_context(
            *(question.text, (), budget, lambda text: count([text])[0], ContextSettings()),
            conversation=spoken,
            encoder=encoder,
        )
        lines = [line for part in block.parts for line in part.lines]
        shown = {line.source.seq for line in lines if line.text == " ".join(spoken[line.source.seq or 0][1].split())}
        shown |= {line.source.seq for line in lines if of_samples and question.answer in line.text}
        reached = (
            _take(newest, tokens, budget),
            _take(nearest, tokens, budget),
            _take([*recent, *(at for at in nearest if at not in recent)], tokens, budget),
            whole | set(newest[: len(told.recent)]),
            shown,
        )
        evidence = [places[turn] for turn in question.evidence]
        for name, some in zip(SYSTEMS, reached, strict=True):
            reach = [at in some for at in evidence]
            found[name].append(float(any(reach)) if of_samples else mean(reach))
    return {name: round(100 * mean(shares), 1) for name, shares in found.items()}


def _take(order: Sequence[int], tokens: Sequence[int], budget: int) -> set[int]:
    """Return turns in an order while they fit; one that does not is passed over."""
    taken = set()
    for at in order:
        if tokens[at] <= budget:
            taken.add(at)
            budget -= tokens[at]
    return taken


def _count_facts(told: Sequence[tuple[str, str]], back: int, encoder: Encoder, budget: int, count: Count) -> int:
    """Return how many of the facts, each told so many turns before, stand in the prompt that asks for it."""
    found = 0
    for fact, question in FACTS:
        at = len(told) - back
        recalled = _tell([*told[:at], ("user", fact), *told[at:]], encoder, count).recall(question, budget)
        found += fact in recalled.text
    return found


def _measure_pruning(one: Conversation, asked: Sequence[Question], encoder: Encoder, share: float) -> float:
    """Return how many points more of the evidence is kept than turns."""
    mind = ActiveMemory(encoder, ActiveSettings(capacity=max(1, int(share * len(one.turns)))))
    for turn in one.turns:
        mind.add_turn(turn.speaker, turn.text)
    kept = {one.turns[trace.number].id for trace in mind.traces}
    evidence = mean(mean(turn in kept for turn in question.evidence) for question in asked)
    return round(100 * (evidence - len(kept) / len(one.turns)), 1)


def measure_cost(told: Sequence[tuple[str, str]], encoder: Encoder, count: Count) -> dict[int, float]:
    """Return milliseconds of CPU of a turn, told and asked, at about 10 and 1,200 turns; the encoder really runs."""
    turns, found = Turns(Settings(), count, encoder), {}
    for size in (10, 1_200):
        while len(turns.said) < size:
            turns.add(*told[len(turns.said) % len(told)])
        spent = []
        for n in range(5):
            start = time.process_time()
            turns.recall(f"{n}: {told[n][1]}", 1_200)
            turns.add("user", f"{n}: {told[n][1]}")
            spent.append(1_000 * (time.process_time() - start))
        found[size] = round(median(spent), 1)
    return found


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file")
    parser.add_argument("--budget", type=int, nargs="+", default=[1_200, 4_000])
    given = parser.parse_args()
    tokenizer, encoder = load_tokenizer("minilm"), load_encoder(given.encoder)

    def count(texts: Sequence[str]) -> list[int]:
        return [tokenizer(text) for text in texts]

    read = [load_samples(given.file)] if given.file.suffix == ".toml" else load_conversations(given.file)
    rows = [row for one in read for row in measure_conversation(one, encoder, given.budget, count)]
    cost = measure_cost([(turn.speaker, turn.text) for turn in read[0].turns], encoder, count)
    rows = [{**row, "milliseconds a turn": str(cost)} for row in rows]
    print_rows(rows, given.as_json, "evidence that reaches the prompt, %")


if __name__ == "__main__":
    main()
