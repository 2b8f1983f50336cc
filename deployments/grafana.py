"""Write the Grafana board of slowwave's metrics: `python deployments/grafana.py > deployments/grafana.json`."""

import json

PANELS = (
    (
        "Hours since the last good run",
        "h",
        "(time() - slowwave_last_good_run_timestamp_seconds) / 3600",
    ),
    ("Oldest waiting transcript", "s", "slowwave_lag_seconds"),
    ("Release held back", "short", "slowwave_gate_held"),
    ("Transcripts", "short", "slowwave_transcripts"),
    ("Runs by status", "short", "slowwave_runs_total"),
    ("Seconds a step", "s", "slowwave_step_seconds"),
    ("Answers an hour", "short", "rate(slowwave_answers_total[1h]) * 3600"),
    (
        "Empty answers",
        "percentunit",
        "slowwave_answers_empty_total / slowwave_answers_total",
    ),
    (
        "Answers that lacked a part of the memory",
        "short",
        "increase(slowwave_answers_in_part_total[1d])",
    ),
    ("Seconds an answer, 95th percentile", "s", "slowwave_answer_p95_seconds"),
    ("Seconds of its encoding, 95th percentile", "s", "slowwave_encoding_p95_seconds"),
    ("Budget used", "percentunit", "slowwave_budget_used_ratio"),
    ("Claims ever and never recalled", "short", "slowwave_claims"),
    ("Claims live, new, retired, perhaps changed", "short", "slowwave_claims_by_state"),
    ("Web queries", "short", "increase(slowwave_web_queries_total[1d])"),
    ("Tokens of models", "short", "increase(slowwave_model_tokens_total[1d])"),
    ("Money for models", "currencyUSD", "increase(slowwave_model_usd_total[1d])"),
    ("Errors of models", "short", "increase(slowwave_model_errors_total[1d])"),
    ("Rows", "short", "slowwave_rows"),
    ("Bytes a row", "bytes", "slowwave_table_bytes / (slowwave_rows > 0)"),
    ("Rows that are not indexed", "short", "slowwave_rows_unindexed"),
    (
        "Tables and encoder that can't be read",
        "short",
        "sum(slowwave_table_broken) + slowwave_encoder_broken",
    ),
)
WIDTH, HEIGHT = 8, 7


def make_board() -> dict[str, object]:
    """Return the board, three panels a row."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": n + 1,
            "title": title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {
                "x": n % 3 * WIDTH,
                "y": n // 3 * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": expr}],
        }
        for n, (title, unit, expr) in enumerate(PANELS)
    ]
    variable = {"name": "source", "type": "datasource", "query": "prometheus"}
    board = {
        "uid": "slowwave",
        "title": "slowwave",
        "schemaVersion": 39,
        "time": {"from": "now-7d", "to": "now"},
    }
    return {**board, "templating": {"list": [variable]}, "panels": panels}


if __name__ == "__main__":
    print(json.dumps(make_board(), indent=1))
