"""How well questions in other languages than English are answered, and whether the prompt hook answers them.

    python -m bench.recall.languages data/labelled/languages_*.jsonl [--encoder NAME] [--store DIR] [--json]

A real night makes a memory of each file, which is in one language. Columns: questions whose answer is among the first
three hits, *in the language* and *in English*, each with the encoder and by *words* alone; *hook*, questions in the
language that the prompt hook answers with the right message; *silent*, everyday prompts ("run the tests") to which it
says nothing. All in percent.
"""

from collections.abc import Sequence
from pathlib import Path

from bench.harness import ENCODER, SCRATCH, Figures, Row, average, run
from bench.recall.talks import Asked, Talk, read_talks
from slowwave import Memory
from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.errors import EncoderFailed

FIRST = 3
COMMAND = "command"
"""Kind of a prompt that asks the memory nothing."""
BUDGET = 800
"""Tokens that the prompt hook tells, at most."""


class AwayEncoder:
    """Stands for the encoder of a release and cannot be had: queries are answered by words alone."""

    dim = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Refuse.

        Raises:
            EncoderFailed: always.
        """
        raise EncoderFailed(self.name, f"{len(texts)} texts are not to be encoded")


def measure(
    files: Sequence[Path], *, store: Path = SCRATCH, encoder: str = ENCODER
) -> Figures:
    """Return a row a language, and their mean."""
    rows = [
        measure_language(talk, talk.open(store, encoder))
        for path in files
        for talk in read_talks(path)
    ]
    means = [
        {"language": "all", **mean} for mean in average([dict(row) for row in rows])
    ]
    percent = [
        {
            name: value if isinstance(value, str) else round(100 * value, 1)
            for name, value in row.items()
        }
        for row in [*rows, *({name: mean[name] for name in rows[0]} for mean in means)]
    ]
    return Figures(percent, "questions in other languages, %")


def measure_language(talk: Talk, memory: Memory) -> Row:
    """Return a language's row."""
    by_words = Memory.open(
        memory.root, encoder=AwayEncoder(memory.get_view().release.encoder or "")
    )
    figures: dict[str, float] = {}
    for kind in dict.fromkeys(one.kind for one in talk.asked if one.gold):
        asked = [one for one in talk.asked if one.kind == kind]
        for name, asker in ((kind, memory), (f"{kind}, words", by_words)):
            figures[name] = sum(is_found(asker, one) for one in asked) / len(asked)
    own = [one for one in talk.asked if one.gold][
        : sum(one.kind == talk.asked[0].kind for one in talk.asked)
    ]
    figures["hook"] = sum(is_answered(memory, one) for one in own) / len(own)
    commands = [one.text for one in talk.asked if one.kind == COMMAND]
    figures["silent"] = sum(not tell(memory, text) for text in commands) / len(commands)
    return {"language": talk.name, **figures}


def is_found(memory: Memory, one: Asked) -> bool:
    """Return True if a message that answers a question is among the first hits."""
    return any(
        hit.sources[0].message in one.gold
        for hit in memory.recall(one.text, FIRST, "message", everything=True)
    )


def is_answered(memory: Memory, one: Asked) -> bool:
    """Return True if the hook looks a question up, and a message that answers it is among the first hits."""
    hits = (
        memory.recall(one.text, FIRST, "message", automatic=True)
        if memory.is_asked(one.text)
        else ()
    )
    return any(hit.sources[0].message in one.gold for hit in hits)


def tell(memory: Memory, prompt: str) -> str:
    """Return the block that the prompt hook shows for a prompt."""
    return (
        memory.context(prompt, BUDGET, automatic=True).text
        if memory.is_asked(prompt)
        else ""
    )


if __name__ == "__main__":
    run(measure)
