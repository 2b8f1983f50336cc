"""Keep which tags a checkout has, so that a new one can end the wait of a plan."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id, compute_tags_id
from slowwave.schemas.tables import CHECKS
from slowwave.schemas.vocabulary import CheckKind, CheckResult
from slowwave.tasks.checks.branches import TAGS, read_tags
from slowwave.tasks.checks.check import clean_text
from slowwave.tasks.checks.checkout import Checkout, CheckoutRefused, find_checkout

MOST_TAGS = 20_000
"""Tags of a checkout from which none is kept."""


@dataclass
class FoundTags:
    """The tags of checkouts."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Of CHECKS."""
    places: set[str] = field(default_factory=set)
    """Ids of the workspaces whose tags are known."""
    unread: set[str] = field(default_factory=set)
    """Ids of the workspaces whose tags could not be read: the earlier rows of these still count."""

    def build_table(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_pylist(self.rows, schema=CHECKS.schema)


def find_tags(
    earlier: Mapping[str, Mapping[str, datetime | None]],
    roots: Mapping[str, str],
    known: Container[str],
    now: datetime,
    step_key: str,
) -> FoundTags:
    """Return the tags of checkouts as rows of CHECKS, each with the first check that found it.

    Of a workspace that was not looked at before no tag is new.

    Args:
        earlier: by workspace's id the tags of earlier checks, each with the first check that found it.
        roots: workspaces, each with its checkout's root.
        known: ids of the workspaces that were looked at before.
        now: the run's clock.
        step_key: the step's.
    """
    found = FoundTags()
    for workspace, root in roots.items():
        place = compute_tags_id(workspace)
        checkout, names = _read_names(root)
        if checkout is None or names is None or len(names) > MOST_TAGS:
            found.unread.add(place)
            continue
        found.places.add(place)
        known_tags = earlier.get(place, {})
        first_seen = now if place in known else None
        for name in sorted({clean_text(name) or "" for name in names} - {""}):
            row = {
                "check_id": compute_content_id(place, CheckKind.TAG, name),
                "row_id": place,
                "workspace": "",
                "kind": CheckKind.TAG,
                "name": name,
                "result": CheckResult.FOUND,
                "checked_at": now,
                "commit": checkout.head,
                "path": TAGS + name,
                "since_at": known_tags.get(name, first_seen),
                "step_key": step_key,
            }
            found.rows.append(row)
    return found


def _read_names(root: str) -> tuple[Checkout | None, set[str] | None]:
    """Return the checkout at a folder with its tags; None for what may not be read."""
    try:
        checkout = find_checkout(Path(root), with_objects=False)
    except CheckoutRefused:
        return None, None
    return checkout, read_tags(checkout)
