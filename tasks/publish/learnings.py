"""The learnings of a memory: its claims with their sources, as a JSON document or a Markdown page.

All texts are redacted again. A workspace is named by its folder and never by its path; files below it are relative.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.vocabulary import Status, is_shared
from slowwave.text.fence import escape_line
from slowwave.text.redact import redact_text

SCHEMA = 1
"""Version of the document. It is raised when a field changes its meaning."""
CITED = ("message_id", "role", "ts", "text")
"""Columns of MESSAGES that `build_learnings` needs."""


def select_learnings(claims: pa.Table, places: Collection[str] = ()) -> pa.Table:
    """Return this memory's own active claims, the oldest first: of the workspace with these names, or of all."""
    own = pa.array(
        [not is_shared(observer) for observer in claims["observer"].to_pylist()],
        pa.bool_(),
    )
    rows = claims.filter(pc.and_(pc.equal(claims["status"], Status.ACTIVE), own))
    if places:
        rows = rows.filter(pc.is_in(rows["workspace"], pa.array(places, pa.string())))
    return rows.sort_by([("observed_at", "ascending"), ("claim_id", "ascending")])


def build_learnings(
    claims: pa.Table, messages: pa.Table, confidences: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return a plain record for each claim.

    Args:
        claims: rows of CLAIMS.
        messages: columns CITED of the messages that the claims cite.
        confidences: each claim's confidence, by its id.

    Returns: Records. `sessions` is the number of sessions that state the claim. `cited` has the role, the time and the
    SHA-256 of the text of each cited message.
    """
    cited = {row["message_id"]: row for row in messages.to_pylist()}
    return [
        _build_learning(
            row,
            confidences[row["claim_id"]],
            [cited[m] for m in row["message_ids"] if m in cited],
        )
        for row in claims.to_pylist()
    ]


def _build_learning(
    row: Mapping[str, Any], confidence: float, cited: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the record of one claim."""
    workspace = row["workspace"]
    folder = f"{workspace.rstrip('/')}/" if workspace else ""
    return {
        "id": row["claim_id"],
        "workspace": PurePath(workspace).name or workspace if workspace else None,
        "category": row["category"],
        "pack": row["pack"],
        "summary": redact_text(row["summary"]),
        "detail": redact_text(row["detail"]) if row["detail"] else None,
        "files": [redact_text(file.removeprefix(folder)) for file in row["files"]],
        "speaker": redact_text(row["speaker"]) if row["speaker"] else None,
        "confidence": confidence,
        "observed_at": row["observed_at"].isoformat() if row["observed_at"] else None,
        "sessions": len(row["evidence_sessions"]),
        "quote": redact_text(row["quote"]),
        "cited": [
            {
                "role": message["role"],
                "at": message["ts"].isoformat() if message["ts"] else None,
                "sha256": hashlib.sha256(message["text"].encode()).hexdigest(),
            }
            for message in cited
        ],
    }


def render_markdown(learnings: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the records as a page: a heading for each category, and each claim with its detail and quote."""
    lines = [f"# {escape_line(title)}", ""]
    for category in sorted(Counter(claim["category"] for claim in learnings)):
        lines += [f"## {category.capitalize() or 'Other'}", ""]
        for claim in (claim for claim in learnings if claim["category"] == category):
            day = f", {claim['observed_at'][:10]}" if claim["observed_at"] else ""
            who = claim["speaker"] or (
                claim["cited"][0]["role"] if claim["cited"] else "unknown"
            )
            files = (
                f" ({', '.join(f'`{escape_line(file)}`' for file in claim['files'])})"
                if claim["files"]
                else ""
            )
            lines += [f"- **{escape_line(claim['summary'])}**{files}"]
            lines += [f"  {escape_line(claim['detail'])}"] if claim["detail"] else []
            lines += [
                f"  > {escape_line(claim['quote'])} ({escape_line(who)}{day})",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"
