"""A whole night's speed: messages a second, each step's share, and the share of wall time inside the encoder.

    python -m bench.nights.night PATH… [--json] [--encoder NAME]

Does three nights in one throw-away store: over the paths, over the same paths again, and over the same with one small
new session. The second shows what a night without news costs, the third what a little news costs; both as shares of the
first, since absolute times are the machine's.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import build_parser, print_rows
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Vectors
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.tasks import vectors

SMALL_TALK = ["I moved to Porto in March.", "The bakery at Rua das Flores closes at six.", "We leave on Friday."]


class TimedEncoder:
    """An encoder that adds up the time spent inside."""

    def __init__(self, name: str) -> None:
        self.inner = load_encoder(name)
        self.name, self.dim = self.inner.name, self.inner.dim
        self.seconds, self.texts = 0.0, 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return what the inner encoder makes of the texts."""
        start = time.perf_counter()
        made = self.inner.encode(texts)
        self.seconds += time.perf_counter() - start
        self.texts += len(texts)
        return made


def measure_nights(paths: list[Path], name: str) -> dict[str, Any]:
    """Return figures of the three nights."""
    encoder = TimedEncoder(name)
    vectors.load_shared_encoder = lambda _: encoder  # type: ignore[assignment]  # the seam under measurement
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=Path(folder) / "store", encoder=name)
        first, inside = _time_night(paths, settings), (encoder.seconds, encoder.texts)
        again = _time_night(paths, settings)
        news = Path(folder) / "news.jsonl"
        news.write_text("".join(json.dumps(_make_line(i, text)) + "\n" for i, text in enumerate(SMALL_TALK)))
        little = _time_night([*paths, news], settings)
    messages = first[0].release.counts["messages"] if first[0].release else 0
    return {
        "messages": messages,
        "seconds": first[1],
        "messages_per_second": messages / first[1],
        "encoder_share": inside[0] / first[1],
        "texts_encoded": inside[1],
        "steps": {step.step: step.seconds for step in first[0].steps},
        "again_share": again[1] / first[1],
        "again_changed": again[0].release is not None,
        "little_news_share": little[1] / first[1],
    }


def _time_night(paths: list[Path], settings: Settings) -> tuple[RunReport, float]:
    start = time.perf_counter()
    report = run_night(paths, settings).check_complete()
    return report, time.perf_counter() - start


def _make_line(number: int, text: str) -> dict[str, str]:
    ts = f"2026-11-20T10:0{number}:00Z"
    who = {"role": "user", "speaker": "Ada"}
    return {"session_id": "news", "message_id": str(number), **who, "content": text, "ts": ts}


def main() -> None:
    """Measure and print."""
    given = build_parser(__doc__, "paths…").parse_args()
    found = measure_nights([path.absolute() for path in given.paths], given.encoder)
    rows = [
        {"step": step, "seconds": seconds, "share": seconds / found["seconds"]}
        for step, seconds in found["steps"].items()
    ]
    again = "something changed!" if found["again_changed"] else "nothing changed"
    notes = [
        f"{found['messages']:,} messages in {found['seconds']:.1f} s: {found['messages_per_second']:.1f} a second, "
        f"{found['encoder_share']:.0%} of it inside the encoder ({found['texts_encoded']:,} texts).",
        f"The same again: {found['again_share']:.1%} of that, {again}. "
        f"With one small new session: {found['little_news_share']:.1%}.",
    ]
    print_rows([found] if given.as_json else rows, given.as_json, notes=notes)


if __name__ == "__main__":
    main()
