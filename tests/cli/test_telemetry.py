"""Spans and metrics: what OpenTelemetry and Prometheus get to see, and that it quotes nothing."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext
from starlette.testclient import TestClient

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.mcp.server import make_http_app, make_server
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "claude-code"


class Span(NonRecordingSpan):
    """A span that the API makes, whose attributes can be looked at."""

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False))
        self.name, self.attributes = name, dict(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value


class Tracer(trace.NoOpTracer):
    """Keeps the spans that are begun."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, *args: Any, **options: Any) -> Span:
        self.spans.append(Span(name, options.get("attributes") or {}))
        return self.spans[-1]

    def start_as_current_span(self, name: str, *args: Any, **options: Any) -> Any:
        return trace.use_span(
            self.start_span(name, **options),
            record_exception=False,
            set_status_on_exception=False,
        )


def test_spans_and_metrics_tell_of_a_night_and_of_answers_without_their_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer, file = Tracer(), tmp_path / "metrics" / "slowwave.prom"
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    given = {
        "STORE": tmp_path / "store",
        "ENCODER": "hash-384",
        "STORAGE__METRICS_FILE": file,
    }
    given |= {
        "LLM": "scripted:tests.llm_scripts:faithful",
        "MODEL__USD_PER_MILLION_PROMPT": 3,
    }
    given |= {"MODEL__USD_PER_MILLION_COMPLETION": 15}
    for name, value in given.items():
        monkeypatch.setenv(f"SLOWWAVE_{name}", str(value))
    settings = Settings()
    run_night([SAMPLES], settings)
    memory = Memory.open()
    found = memory.recall("harbour gauge readings")
    memory.remember("The harbour gauge is offline.")
    with pytest.raises(UsageError):
        memory.recall("harbour", kinds=["nothing"])

    names = [span.name for span in tracer.spans]
    assert names[0] == "slowwave.night"
    assert tracer.spans[0].attributes["slowwave.run.status"] == "done"
    steps = [
        one.attributes["slowwave.step.name"]
        for one in tracer.spans
        if one.name == "slowwave.step"
    ]
    assert (steps[0], steps[-1], len(steps)) == ("read", "publish", 13)
    named = {"gen_ai.provider.name": "slowwave", "gen_ai.memory.store.id": "default"}
    assert [one.attributes for one in tracer.spans if "memory" in one.name] == [
        {
            "gen_ai.operation.name": "search_memory",
            **named,
            "gen_ai.memory.record.count": len(found),
        },
        {
            "gen_ai.operation.name": "create_memory",
            **named,
            "gen_ai.memory.record.count": 1,
        },
    ]
    assert "harbour" not in repr([one.attributes for one in tracer.spans])

    app = make_http_app([(make_server(settings, "0"), "key")], "127.0.0.1")
    with TestClient(
        app, "http://127.0.0.1", headers={"Authorization": "Bearer key"}
    ) as client:
        served = client.get("/metrics").text
        assert (
            client.get("/metrics", headers={"Host": "evil.example"}).status_code == 421
        )
        assert (
            client.get("/metrics", headers={"Authorization": "Bearer no"}).status_code
            == 401
        )
    assert 'slowwave_runs_total{status="done"} 1.0' in served
    text, board = (
        file.read_text(),
        json.loads((ROOT / "deployments" / "grafana.json").read_text()),
    )
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    asked = {
        name
        for panel in board["panels"]
        for name in re.findall(r"slowwave_\w+", panel["targets"][0]["expr"])
    }
    assert asked - known == set()
    (new, active) = (
        float(re.findall(rf'claims_by_state{{state="{one}"}} (.+)', text)[0])
        for one in ("new", "active")
    )
    assert new >= active > 0
    read, written = (
        float(re.findall(rf'tokens_total{{kind="{one}".+}} (.+)', text)[0])
        for one in ("prompt", "answer")
    )
    (usd,) = (float(one) for one in re.findall(r"model_usd_total{.+} (.+)", served))
    assert usd == pytest.approx((3 * read + 15 * written) / 1e6)
    assert usd > 0
    assert board == json.loads(
        subprocess.check_output([sys.executable, ROOT / "deployments" / "grafana.py"])
    )
    if (tool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed: nobody else has read the metrics")
    told = subprocess.run(
        [tool, "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
