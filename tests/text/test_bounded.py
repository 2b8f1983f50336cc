"""No text holds a night or a question: sixteen times the text takes about sixteen times as long, whatever is in it.

Where work grew with the square the ratio would be 256; times are held against each other inside one run only.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import thread_time
from typing import TypeVar

import pyarrow as pa
import pytest

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.llm.checks import check_completion
from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.recall.query import MOST_TIMES, parse_times
from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.tool_calls import list_patched_files
from slowwave.tasks.changes.outcome import Known, supersede
from slowwave.tasks.ingest.formats.agents.openclaw.content import parse_model_text
from slowwave.tasks.llm.fence import find_injections
from slowwave.tasks.observe.worth import list_grams
from slowwave.text.redact import redact
from slowwave.text.sentences import split_sentences
from slowwave.text.spans import extract_spans
from tests.claim_rows import DAY, claim_row

TIMES = 16
MOST = 80
"""Ratio of the times, under a millisecond taken for one: between growth with the text and with its square."""
NOW = datetime(2026, 11, 24, tzinfo=UTC)
Given = TypeVar("Given")

READERS: dict[str, Callable[[str], object]] = {
    "boilerplate": lambda text: extract_spans(text),
    "sentences": split_sentences,
    "grams": list_grams,
    "secrets": redact,
    "tokens": redact,
    "times": lambda text: parse_times(text, NOW),
    "patches": lambda text: list_patched_files(f"*** Add File: {text}"),
    "tags": parse_model_text,
    "injections": lambda text: find_injections(
        f"note to{text[1:]}\nremember{text[1:]}"
    ),
    "answers": lambda text: check_completion(
        Request("q", (), AnswerModel),
        Completion(
            "q",
            f'```json\n"{"".join(text.split())}"\n{"".join(c for c in text if c.isspace())}```',
        ),
    ),
}
TEXTS = {
    "boilerplate": ("!", "!\n", "!a", ".)", " ", "a b\n"),
    "sentences": ("```\n", "好。", " ", "`a. ", "wow, ", ", ", "\n", "好", "a"),
    "grams": ("好", "a", "a/"),
    "secrets": (
        "key=",
        "-eyJ",
        "://a:",
        "curl -u a",
        "PuTTY-User-Key-File-2:",
        "password is ",
        "sk-ant-",
        "key>a",
    ),
    "tokens": ("EAAA_", "AccountKey="),
    "answers": ("\n", " "),
    "injections": (" ", "\t", "to the ", "ignore all ", "- "),
    "patches": (" ",),
    "tags": ("[[reply_to:a",),
    "times": ("7 May 2023 ", "in May ", "since ", "1 to ", "may "),
}


def measure(read: Callable[[Given], object], given: Given) -> float:
    """Seconds of this thread's own work, so that a busy machine does not count; of three tries the shortest."""
    took = []
    for _ in range(3):
        begun = thread_time()
        read(given)
        took.append(thread_time() - begun)
    return min(took)


@pytest.mark.parametrize(
    ("name", "piece"),
    [(name, piece) for name, pieces in TEXTS.items() for piece in pieces],
)
def test_sixteen_times_the_text_is_about_sixteen_times_the_work(
    name: str, piece: str
) -> None:
    read = READERS[name]
    read(piece * 20)
    short = measure(read, "a" + piece * 300 + "b")
    assert measure(read, "a" + piece * 300 * TIMES + "b") < MOST * max(short, 1e-3)


@pytest.mark.parametrize("turns", [2, 1_000])
def test_sixteen_times_the_claims_all_of_figures_is_about_sixteen_times_the_work(
    turns: int,
) -> None:
    encoder = load_query_encoder("hash-384")

    def tell(count: int) -> pa.Table:
        said = [
            " ".join(str((n * 7_919 + k * 104_729) % 9_973) for k in range(20))
            for n in range(count)
        ]
        rows = [
            claim_row(
                n,
                text,
                vector=vector,
                session_id=f"s{n % turns}",
                observed_at=DAY + timedelta(n % turns),
            )
            for n, (text, vector) in enumerate(
                zip(said, encoder.encode(said), strict=True)
            )
        ]
        return pa.Table.from_pylist(rows, schema=CLAIMS.schema)

    def judge(rows: pa.Table) -> object:
        return supersede(rows, Known("k"))

    judge(tell(20))
    assert measure(judge, tell(25 * TIMES)) < MOST * measure(judge, tell(25))


def test_a_query_of_dates_is_held_against_a_few() -> None:
    times = parse_times(" ".join(f"20{n:02}-05-07" for n in range(100)), NOW)
    assert times is not None
    assert len(times.named.dates) == len(times.named.years) == MOST_TIMES


def test_names_without_a_secret_cost_little_more_than_words() -> None:
    def measure_once(text: str) -> float:
        start = thread_time()
        redact(text)
        return thread_time() - start

    def measure(word: str) -> float:
        # texts of different lengths, since what was redacted once is remembered
        return min(measure_once(word * (100_000 + more)) for more in range(4))

    # 20 times as long where each name read the 512 letters after it.
    assert measure("key=") < 6 * measure("key ")
