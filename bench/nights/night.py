"""A whole night's speed: messages a second, each step's share, and the share of wall time inside the encoder.

    python -m bench.nights.night PATH… [--json] [--encoder NAME]

Does three nights in one throw-away store: over the paths, over the same paths again, and over the same with one small
new session. The second shows what a night without news costs, the third what a little news costs; both as shares of the
first, since absolute times are the machine's.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness import ENCODER, SCRATCH, Figures, run
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import KnownEncoder, Vectors
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.tasks import vectors

SMALL_TALK = [
    "I moved to Porto in March.",
    "The bakery at Rua das Flores closes at six.",
    "We leave on Friday.",
]


class TimedEncoder:
    """An encoder that adds up the time spent inside."""

    def __init__(self, name: str) -> None:
        self.inner = load_encoder(name)
        self.name, self.dim = self.inner.name, self.inner.dim
        self.seconds, self.texts = 0.0, 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the inner encoder's vectors of the texts."""
        start = time.perf_counter()
        made = self.inner.encode(texts)
        self.seconds += time.perf_counter() - start
        self.texts += len(texts)
        return made


def measure(
    paths: Sequence[Path], *, store: Path = SCRATCH, encoder: str = ENCODER
) -> Figures:
    """Return a row a step of the first night, and what the others took."""
    timed = TimedEncoder(encoder)
    vectors.load_shared_encoder = lambda _: KnownEncoder(timed)
    settings = Settings(store=store / "store", encoder=encoder)
    (first, took), inside, texts = (
        _time_night(paths, settings),
        timed.seconds,
        timed.texts,
    )
    again, took_again = _time_night(paths, settings)
    news = store / "news.jsonl"
    news.write_text(
        "".join(
            json.dumps(_make_line(n, text)) + "\n" for n, text in enumerate(SMALL_TALK)
        )
    )
    _, took_little = _time_night([*paths, news], settings)
    messages = first.release.counts["messages"] if first.release else 0
    rows = [
        {"step": step.step, "seconds": step.seconds, "share": step.seconds / took}
        for step in first.steps
    ]
    rows += [
        {"step": name, "seconds": seconds, "share": seconds / took}
        for name, seconds in (
            ("the night", took),
            ("inside the encoder", inside),
            ("the same again", took_again),
            ("with one small new session", took_little),
        )
    ]
    speed = f"{messages:,} messages in {took:.1f} s: {messages / took:.1f} a second; {texts:,} texts encoded"
    return Figures(
        rows,
        notes=[
            speed,
            f"The same again: {'something' if again.release else 'nothing'} changed",
        ],
    )


def _time_night(paths: Sequence[Path], settings: Settings) -> tuple[RunReport, float]:
    start = time.perf_counter()
    report = run_night(list(paths), settings).check_complete()
    return report, time.perf_counter() - start


def _make_line(number: int, text: str) -> dict[str, str]:
    said = {
        "role": "user",
        "speaker": "Ada",
        "content": text,
        "ts": f"2026-11-20T10:0{number}:00Z",
    }
    return {"session_id": "news", "message_id": str(number), **said}


if __name__ == "__main__":
    run(measure)
