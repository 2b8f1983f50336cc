"""What a night brought since the live release, and the gates on it: failed claims, junk, and tokens. Of few claims
(`gates.Bounds`) a share says nothing: it is not looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from slowwave.schemas.settings import GateSettings
from slowwave.schemas.tables import COMPLETIONS, OBSERVATIONS, QUARANTINE
from slowwave.schemas.vocabulary import Status
from slowwave.store.releases import Release
from slowwave.store.snapshot import Snapshot
from slowwave.store.store import Store
from slowwave.tasks.publish import gates

OF_USE = ("reusable", "non_trivial")
"""What a language model says of a claim; null where none judged it. Whether it is `specific` is a matter of style: of a
model that begins every summary with "It was said" no claim is.
"""


@dataclass(frozen=True)
class News:
    """Rows since the live release, by what became of them; of each some as examples."""

    claims: int = 0
    """New ones that hold."""
    rejected: list[str] = field(default_factory=list)
    """Reasons of a model's claims that were not kept: most often a quote that stands in no message."""
    junk: list[str] = field(default_factory=list)
    """New claims that were found trivial or of no use later."""
    tokens: int = 0


def collect_news(store: Store, live: Release, observed_anew: Sequence[str]) -> News:
    """Return what the newest tables have that the live release has not; without sessions observed by other rules."""
    before = Snapshot(store.root, store.space, live.release_id)
    known = before.read(OBSERVATIONS, ["observation_id"], pc.field("status") == Status.ACTIVE)["observation_id"]
    columns = ["observation_id", "session_id", "summary", *OF_USE]
    held = set(known.to_pylist())
    rows = store.read(OBSERVATIONS, columns, pc.field("status") == Status.ACTIVE).to_pylist()
    anew = set(observed_anew)
    fresh = [row for row in rows if row["observation_id"] not in held and row["session_id"] not in anew]
    since = store.read(COMPLETIONS, ["prompt_tokens", "completion_tokens"], pc.field("created_at") > live.created_at)
    return News(
        claims=len(fresh),
        rejected=collect_quarantined(store, before)[1],
        junk=[row["summary"] for row in fresh if any(row[name] is False for name in OF_USE)],
        tokens=sum(pc.sum(since[name]).as_py() or 0 for name in since.column_names),
    )


def collect_quarantined(store: Store, before: Snapshot | None) -> tuple[list[str], list[str]]:
    """Return reasons of what newly is in quarantine, all of it where nothing was `before`: lines that were read, and
    claims that were made.
    """
    known = set(before.read(QUARANTINE, ["quarantine_id"])["quarantine_id"].to_pylist()) if before else set()
    columns = ["quarantine_id", "step", "row_id", "reason"]
    rows: list[dict[str, Any]] = store.read(QUARANTINE, columns, ~pc.field("resolved")).to_pylist()
    fresh = [row for row in rows if row["quarantine_id"] not in known]
    unread = [row["reason"] for row in fresh if row["step"] == "read"]
    return unread, [row["reason"] for row in fresh if row["step"] == "observe" and "#" in (row["row_id"] or "")]


def check_news(settings: GateSettings, news: News) -> Iterator[str]:
    """Yield why a release with these news should not be made, a line a gate with examples."""
    shares = (
        (news.rejected, news.claims, "of the new claims were not kept", "max_rejected"),
        (news.junk, news.claims - len(news.junk), "of the new claims are of no use", "max_junk"),
    )
    for bad, good, what, name in shares:
        total, bound = len(bad) + max(good, 0), getattr(settings, name)
        if total >= gates.BOUNDS.new_claims and len(bad) > bound * total:
            told = "; ".join(" ".join(one.split())[:100] for one in dict.fromkeys(bad[: gates.BOUNDS.examples * 9]))
            yield f"{len(bad) / total:.0%} {what}, gates.{name} allows {bound:.0%}: {told[:320]}"
    if settings.max_tokens and news.tokens > settings.max_tokens:
        yield f"{news.tokens:,} tokens since the live release, gates.max_tokens allows {settings.max_tokens:,}"
