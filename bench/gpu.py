"""A machine with a GPU, without a hub: the engine, the encoder and keywords, and a night with both on one card.

    python -m bench.gpu [--messages 20000] [--answer-tokens 128] [--json]

Takes under ten minutes on an H100. *engine*: a model of an 8B shape with random weights answers the prompts of
`data/samples`, repeated until they stand for so many messages, through slowwave and by bare `LLM.chat` of the same
engine. *encoder*: texts a second beside `SentenceTransformer.encode`; *keywords* likewise, their phrases encoded on the
same device. *night*: `data/samples` with the model and the encoder on one card. What the model says is noise: answers
end at their budget.

Without a GPU all of it runs with a toy of a model over a few messages, and says so: those figures show that it runs.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.harness import SAMPLES, SCRATCH, Figures, Row, run
from bench.nights.tiny_models import EIGHT_BILLION, TOY, write_shape
from slowwave.engines.encoders.load import load_encoder, load_original
from slowwave.engines.llm.protocol import Request
from slowwave.engines.llm.vllm import NO_THINKING, VLLMOffline
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import ExtractSettings, LLMSettings, Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.store import Store
from slowwave.tasks.gists.keywords import extract_keywords
from slowwave.tasks.llm.library import Library
from slowwave.tasks.observe.by_model import plan_requests

ENCODER = "all-MiniLM-L6-v2"
FEW = 40
"""Messages without a GPU."""
GIB = 1 << 30
LOOK_SECONDS = 0.2
"""Between two looks at the card's memory."""
LEAST = {"engine": 0.95, "encoder": 1.0, "keywords": 1.0}
"""The bars of the ratios."""
WINDOW = 8_192


def measure(
    *, messages: int = 20_000, answer_tokens: int = 128, scratch: Path = SCRATCH
) -> Figures:
    """Return a row a figure; what could not be measured is a note, and fails the command if there is a GPU."""
    card = find_card()
    rows: list[Row] = [{"part": "machine", "figure": "card", "value": card or "none"}]

    def note(part: str, why: str) -> None:
        rows.append({"part": part, "figure": "note", "value": why})

    if not card:
        note(
            "machine",
            "no GPU: a toy of a model over a few messages, to show that it runs",
        )
    transcripts = SAMPLES if card else SAMPLES / "codex"
    said = read_messages(transcripts, scratch)
    size = messages if card else min(messages, FEW)
    texts = repeat_texts([row["text"] for row in said.to_pylist() if row["text"]], size)
    parts: dict[str, Callable[[], list[Row]]] = {
        "encoder": lambda: measure_encoder(texts),
        "keywords": lambda: measure_keywords(texts[:2_000]),
    }
    lacking = [name for name in ("vllm", "transformers") if find_spec(name) is None]
    if lacking:
        note("engine", f"no {lacking[0]}: the engine and its night are left out")
    else:
        shape = EIGHT_BILLION if card else TOY
        folder = write_shape(scratch / "model", shape, texts)
        parts |= {
            "engine": lambda: measure_engine(folder, said, size, answer_tokens),
            "night": lambda: measure_night(folder, scratch, transcripts, answer_tokens),
        }
    failed = bool(card and lacking)
    for name, part in parts.items():
        try:
            with watch_memory(rows, name):
                rows += [{"part": name, **row} for row in part()]
        except Exception as trouble:
            failed = True
            why = " ".join(str(trouble).split())[:300]
            note(name, f"failed: {type(trouble).__name__}: {why}")
    return Figures(rows, "on a GPU", failed=failed)


def find_card() -> str | None:
    """Return the name of the GPU; None without one."""
    if find_spec("torch") is None:
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def read_messages(transcripts: Path, scratch: Path) -> Any:
    """Return the rows of MESSAGES of transcripts."""
    settings = Settings(store=scratch / "read", encoder="hash-64")
    run_night([transcripts], settings)
    return Store.open(settings.store, settings.space).read(MESSAGES)


def repeat_texts(texts: Sequence[str], size: int) -> list[str]:
    """Return so many texts, no two of them equal: a number stands before each that is repeated."""
    return [
        text if n < len(texts) else f"{n} {text}"
        for n, text in enumerate(islice(cycle(texts), size))
    ]


def measure_encoder(texts: Sequence[str]) -> list[Row]:
    """Return texts a second of the night's encoder and of `SentenceTransformer.encode` as it comes."""
    ours, theirs = load_encoder(ENCODER), load_original(ENCODER).model
    took = time_in_turns(
        lambda: ours.encode(texts),
        lambda: theirs.encode(list(texts), show_progress_bar=False),
    )
    return compare("encoder", "texts/s", len(texts), *took)


def measure_keywords(texts: Sequence[str]) -> list[Row]:
    """Return texts a second with keywords, beside `SentenceTransformer.encode` of the texts and their phrases."""
    from slowwave.tasks.gists.keywords import extract_phrases

    ours, theirs = load_encoder(ENCODER), load_original(ENCODER).model
    vectors = ours.encode(texts)
    phrases = sorted({phrase for text in texts for phrase in extract_phrases(text)})
    took = time_in_turns(
        lambda: extract_keywords(texts, vectors, ours, 5),
        lambda: theirs.encode(phrases, show_progress_bar=False),
    )
    return compare("keywords", "texts/s", len(texts), *took)


def measure_engine(
    folder: Path, said: Any, messages: int, answer_tokens: int
) -> list[Row]:
    """Return answer tokens a second through slowwave and by bare `LLM.chat` of the same engine."""
    engine = VLLMOffline(str(folder), make_model_settings())
    requests = repeat_requests(engine, said, messages, answer_tokens)
    try:
        start = time.perf_counter()
        list(engine.complete(requests[:1]))
        started = time.perf_counter() - start
        llm = engine._open_engine()
        tokens = list[int]()

        def ask_through_slowwave() -> None:
            llm.reset_prefix_cache()
            answers = list(engine.complete(requests))
            tokens.append(sum(a.prompt_tokens + a.completion_tokens for a in answers))

        def ask_bare() -> None:
            llm.reset_prefix_cache()
            llm.chat(
                [list(request.messages) for request in requests],
                [engine._build_sampling_params(request) for request in requests],
                use_tqdm=False,
                chat_template_kwargs=NO_THINKING,
            )

        took = time_in_turns(ask_through_slowwave, ask_bare)
    finally:
        engine.close()
    return [
        {"figure": "seconds to start", "value": round(started, 1)},
        {"figure": "prompts", "value": len(requests)},
        *compare("engine", "tokens/s", tokens[-1], *took),
    ]


def measure_night(
    folder: Path, scratch: Path, transcripts: Path, answer_tokens: int
) -> list[Row]:
    """Return the figures of a night with the model and the encoder on one card."""
    settings = Settings(
        store=scratch / "night",
        encoder=ENCODER,
        llm=f"vllm:{folder}",
        model=make_model_settings(),
        extract=ExtractSettings(answer_tokens=answer_tokens),
    )
    start = time.perf_counter()
    report = run_night([transcripts], settings)
    return [
        {"figure": "seconds", "value": round(time.perf_counter() - start, 1)},
        {"figure": "status", "value": str(report.status)},
        *(
            {"figure": f"seconds of {step.step}", "value": round(step.seconds, 2)}
            for step in report.steps
        ),
    ]


def make_model_settings() -> LLMSettings:
    """Return the engine's settings: random weights."""
    return LLMSettings(context_window=WINDOW, vllm={"load_format": "dummy"})


def repeat_requests(
    engine: VLLMOffline, said: Any, messages: int, answer_tokens: int
) -> list[Request]:
    """Return the prompts of extraction, as many as stand for so many messages, each different from the others after the
    instructions, which all have in common.
    """
    settings = Settings()
    plan = plan_requests(
        said,
        settings.observe,
        ExtractSettings(),
        Library(None),
        engine.count_tokens,
        WINDOW,
    )
    wanted = max(1, round(messages / plan.count_messages() * len(plan.requests)))
    return [
        replace(
            request,
            id=f"{n} {request.id}",
            messages=(*request.messages[:-1], _number(request.messages[-1], n)),
            max_tokens=min(request.max_tokens, answer_tokens),
        )
        for n, request in enumerate(islice(cycle(plan.requests), wanted))
    ]


def _number(message: Any, n: int) -> Any:
    return {**message, "content": f"{n}\n{message['content']}"}


def time_in_turns(
    ours: Callable[[], object], theirs: Callable[[], object]
) -> tuple[float, float]:
    """Return the least seconds of each, of two turns after a first one of ours."""
    took = {ours: list[float](), theirs: list[float]()}
    for work in (ours, theirs, ours, theirs):
        start = time.perf_counter()
        work()
        took[work].append(time.perf_counter() - start)
    return min(took[ours]), min(took[theirs])


def compare(part: str, unit: str, count: int, ours: float, theirs: float) -> list[Row]:
    """Return both rates and their ratio, beside its bar."""
    return [
        {"figure": unit, "value": round(count / ours, 1)},
        {"figure": f"{unit}, bare", "value": round(count / theirs, 1)},
        {"figure": "of bare", "value": round(theirs / ours, 3), "bar": LEAST[part]},
    ]


@contextmanager
def watch_memory(rows: list[Row], part: str) -> Iterator[None]:
    """Add a row with the most memory of the card that was taken inside the block, by all its processes."""
    if find_card() is None:
        yield
        return
    import torch

    over, most = threading.Event(), [0.0]

    def look() -> None:
        while True:
            free, total = torch.cuda.mem_get_info()
            most[0] = max(most[0], (total - free) / GIB)
            if over.wait(LOOK_SECONDS):
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        rows.append({"part": part, "figure": "peak GiB", "value": round(most[0], 2)})


if __name__ == "__main__":
    run(measure)
