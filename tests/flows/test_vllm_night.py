"""Nights, a talk and a reprocessing with the real vLLM and a real model of half a billion parameters, in process and
through its server.

Minutes each on a CPU, so `pytest -m vllm` alone runs them. The nights are what a person types, in processes of their
own: Prefect and all. What so small a model says is of little worth; that it is kept to its quotes is what counts here.
"""

import gzip
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.nights.tiny_models import ensure_model_folder
from slowwave.engines.llm.protocol import LASTING
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    GISTS,
    MESSAGES,
    QUARANTINE,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPICS,
    Table,
)
from slowwave.store import Store
from slowwave.tasks.job import parse_steps
from tests.vllm_servers import free_port, generated, kill, served, wait_for

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own, on a CPU
    pytest.mark.skipif(
        find_spec("vllm") is None,
        reason="vLLM is not installed here: `make test-vllm` runs this",
    ),
]

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
WINDOW = 4096
SPARING = {
    "CONTEXT_WINDOW": WINDOW,
    "MAX_NUM_SEQS": 8,
    "TIMEOUT": 600,
    "REPETITION_PENALTY": 1.05,  # so small a model goes in circles without
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return ensure_model_folder()


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Part of the samples: the beginning of a personal chat, and a conversation of coding."""
    part = tmp_path_factory.mktemp("part")
    chat = SAMPLES / "generic" / "marit-and-theo-november.jsonl.gz"
    (part / "chat.jsonl").write_bytes(
        b"".join(gzip.decompress(chat.read_bytes()).splitlines(keepends=True)[:16])
    )
    (coding,) = (SAMPLES / "codex" / "sessions" / "2026" / "09").rglob("*.jsonl")
    (part / coding.name).write_bytes(coding.read_bytes())
    return part


def environment(**more: object) -> dict[str, str]:
    sparing = {
        f"SLOWWAVE_MODEL__{name}": str(value)
        for name, value in (SPARING | more).items()
        if value != ""
    }
    short: dict[str, object] = {"EXTRACT__ANSWER_TOKENS": 448, "EXTRACT__MAX_CLAIMS": 3}
    short |= {"PYRAMID__N_SUM": 12, "PYRAMID__MAX_WORDS": "[30]"}
    sparing |= {f"SLOWWAVE_{name}": str(value) for name, value in short.items()}
    quiet = {
        "SLOWWAVE_GISTS": "llm",
        "SLOWWAVE_EXTRACT__GIST_WORDS": "45",
        "PREFECT_LOGGING_LEVEL": "ERROR",
    }
    return os.environ | sparing | quiet


def start(
    words: list[str], store: Path, llm: str, **more: object
) -> "subprocess.Popen[str]":
    """A command as a person starts it."""
    command = [
        sys.executable,
        "-c",
        "from slowwave.cli.main import main; main()",
        *words,
    ]
    command += ["--llm", llm, "--store", str(store)]
    both = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "stdin": subprocess.PIPE,
    }
    return subprocess.Popen(command, env=environment(**more), text=True, **both)  # type: ignore[call-overload,no-any-return]


def night(
    transcripts: Path, store: Path, llm: str, **more: object
) -> "subprocess.Popen[str]":
    return start(["run", str(transcripts)], store, llm, **more)


def rows(store: Path, table: Table) -> list[dict[str, object]]:
    return Store.open(store).read(table).to_pylist()


def finished(night: "subprocess.Popen[str]", typed: str = "") -> str:
    """Wait for the end, and return what it said; it must have gone well."""
    said, _ = night.communicate(typed, timeout=1_500)
    assert night.returncode == 0, said[-4_000:]
    return said


def check(store: Path, model: str) -> None:
    """What holds after a night, whatever the model said."""
    texts = {row["message_id"]: row["text"] for row in rows(store, MESSAGES)}
    completions = rows(store, COMPLETIONS)
    valid = [c for c in completions if c["error"] is None]
    assert {c["error"] for c in completions} <= {None, *LASTING}
    assert len(valid) >= 0.9 * len(completions)
    assert all(isinstance(json.loads(str(c["text"])), dict) for c in valid)
    claims = rows(store, CLAIMS)
    assert claims
    for claim in claims:
        assert claim["observer"] == model
        assert str(claim["quote"]) in str(texts[claim["message_ids"][0]])  # type: ignore[index]
        assert claim["topic_id"] or claim["status"] != "active"
    assert {claim["topic_id"] for claim in claims} <= {
        None,
        *(topic["topic_id"] for topic in rows(store, TOPICS)),
    }
    assert "llm" in {gist["strategy"] for gist in rows(store, GISTS)}
    told = {str(summary["text"]) for summary in rows(store, SUMMARIES)}
    assert any(json.loads(str(c["text"])).get("text") in told for c in valid)
    for refused in rows(store, QUARANTINE):
        assert refused["reason"]


def asked(store: Path) -> dict[str, int]:
    """Requests of the last run by step, those answered from the cache left out."""
    last = max(rows(store, RUNS), key=lambda run: run["started_at"])  # type: ignore[arg-type,return-value]
    return {
        step.step: sum(used.paid_requests for used in step.usage.values())
        for step in parse_steps(str(last["report"]))
    }


def test_a_night_in_process(folder: Path, transcripts: Path, tmp_path: Path) -> None:
    finished(night(transcripts, tmp_path, f"vllm:{folder}"))
    (model,) = {str(completion["model"]) for completion in rows(tmp_path, COMPLETIONS)}
    check(tmp_path, model)
    done = asked(tmp_path)
    assert min(done["gists"], done["observe"], done["assign"], done["rollup"]) >= 1
    versions = Store.open(tmp_path).read_versions([CLAIMS, SUMMARIES, COMPLETIONS])
    # At once: the engine is not started.
    finished(night(transcripts, tmp_path, f"vllm:{folder}"))
    assert (
        Store.open(tmp_path).read_versions([CLAIMS, SUMMARIES, COMPLETIONS]) == versions
    )


def test_nights_through_a_server_that_is_killed_in_mid_batch_a_talk_and_a_reprocessing(
    folder: Path, transcripts: Path, tmp_path: Path
) -> None:
    port = free_port()
    llm = f"openai:tiny@http://127.0.0.1:{port}/v1"
    with ExitStack() as servers:
        first = servers.enter_context(served(folder, port, WINDOW))
        wait_for(port, first)
        running = night(transcripts, tmp_path, llm)
        servers.callback(running.kill)
        while generated(port) < 100:  # several are being answered
            assert running.poll() is None
            time.sleep(0.5)
        kill(first)
        said, _ = running.communicate(timeout=1_500)
        # Released; what was not answered waits for the next night.
        assert running.returncode in (0, 3), said[-4_000:]
        wait_for(port, servers.enter_context(served(folder, port, WINDOW)))
        finished(night(transcripts, tmp_path, llm))
        check(tmp_path, "tiny")
        before = {row["summary_id"]: row for row in rows(tmp_path, SUMMARIES)}
        talk = start(["talk"], tmp_path, llm)
        told = finished(
            talk,
            "I moved the chart plotter to the aft cabin on Sunday.\nWhere is it now?\n/why\n/quit\n",
        )
        assert "Talking with tiny" in told
        assert len(list((tmp_path / "default" / "talk").iterdir())) == 1
        # A second night, with the talk for news.
        finished(night(transcripts, tmp_path, llm))
        (session,) = [
            row
            for row in rows(tmp_path, SESSIONS)
            if str(row["native_id"]).startswith("talk-")
        ]
        assert session["messages"] == 4
        done = asked(tmp_path)
        assert done["observe"] >= 1
        after = {row["summary_id"]: row for row in rows(tmp_path, SUMMARIES)}
        mine = {key for key, row in before.items() if row["scope"] == "session"}
        assert {key: after[key] for key in mine} == {key: before[key] for key in mine}
        check(tmp_path, "tiny")
        for step in (
            "observe",
            "summaries",
        ):
            # From the answers that are kept: the same rows.
            finished(start(["reprocess", step], tmp_path, llm))
        assert {
            row["summary_id"]: row["text"] for row in rows(tmp_path, SUMMARIES)
        } == {key: row["text"] for key, row in after.items()}
