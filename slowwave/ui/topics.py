"""The pages of topics and of the pyramid: an icicle from all claims down to one claim or message; topics over time."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from slowwave.recall.views.browse import list_claims, name_topics
from slowwave.recall.views.voices import find_voices
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.tables import CLAIMS, MESSAGES, SUMMARIES, TOPIC_HISTORY
from slowwave.schemas.vocabulary import Status, SummaryScope
from slowwave.text.words import count_noun
from slowwave.ui.page import (
    ROWS,
    After,
    Data,
    Explorer,
    Id,
    Page,
    find_row,
    read_rows,
)

LEAST = 0.15
"""Percent of the chart's width; a narrower rectangle is not drawn, since nobody could see or click it."""


@dataclass
class IcicleNode:
    """A rectangle of the icicle, and those below it."""

    label: str
    href: str
    size: int = 0
    below: tuple["IcicleNode", ...] = ()

    @property
    def weight(self) -> int:
        """Number of leaves below it: `size` if it is set, else the sum of the nodes below; at least 1."""
        return self.size or sum(node.weight for node in self.below) or 1


def lay_out(
    node: IcicleNode,
    x: float = 0.0,
    width: float = 100.0,
    level: int = 0,
) -> Iterator[Data]:
    """Yield the rectangles of an icicle, in percent of its width; each level is a row."""
    yield {
        "x": round(x, 3),
        "w": round(width, 3),
        "level": level,
        "label": node.label,
        "href": node.href,
    }
    whole = max(node.weight, sum(child.weight for child in node.below))
    for child in node.below:
        share = width * child.weight / whole
        if share >= LEAST:
            yield from lay_out(node=child, x=x, width=share, level=level + 1)
        x += share


def build_scope(
    at: Explorer, scope: str, scope_id: str
) -> tuple[dict[str, IcicleNode], list[IcicleNode]]:
    """Return the nodes of a topic's or session's pyramid by id, and those of them that are in no other node."""
    columns = ["summary_id", "tier", "seq", "title", "text", "member_ids"]
    rows = read_rows(
        at=at, table=SUMMARIES, columns=columns, where=pc.field("scope_id") == scope_id
    )
    nodes = _make_claim_nodes(at, scope_id) if scope == SummaryScope.TOPIC else {}
    message_ids = (
        [key for row in rows for key in row["member_ids"]]
        if scope == SummaryScope.SESSION
        else []
    )
    messages = at.view.read_by_id(MESSAGES, message_ids, ["text"])
    members: set[str] = set()
    for row in sorted(rows, key=lambda row: (row["tier"] < 0, row["tier"], row["seq"])):
        below = [
            nodes.get(key) or _make_leaf(key, messages.get(key))
            for key in row["member_ids"]
        ]
        nodes[row["summary_id"]] = IcicleNode(
            label=row["title"] or row["text"],
            href=f"/summary/{row['summary_id']}",
            size=0,
            below=tuple(below),
        )
        members.update(row["member_ids"])
    return nodes, [node for key, node in nodes.items() if key not in members]


def _make_claim_nodes(at: Explorer, topic_id: str) -> dict[str, IcicleNode]:
    """Return a node for each active claim of a topic by its id, in order of time."""
    where = (pc.field("topic_id") == topic_id) & (pc.field("status") == Status.ACTIVE)
    claims = read_rows(
        at=at, table=CLAIMS, columns=["claim_id", "summary", "observed_at"], where=where
    )
    return {
        row["claim_id"]: IcicleNode(row["summary"], f"/claim/{row['claim_id']}")
        for row in sorted(claims, key=lambda row: str(row["observed_at"]))
    }


def _make_leaf(key: str, message: MessageRow | None) -> IcicleNode:
    """Return the node of a message, labelled with its first words."""
    return IcicleNode(
        str(message["text"])[:300].strip() or "message" if message else "message",
        f"/message/{key}",
    )


def list_topics(at: Explorer, after: After = 0) -> Data:
    """Return the topics, the strongest first, with their claims week by week, and an icicle of all claims."""
    themes = at.memory.topics()
    nodes = [
        IcicleNode(theme.title, f"/topic/{theme.id}", theme.claims) for theme in themes
    ]
    whole = IcicleNode(
        label=f"{sum(theme.claims for theme in themes):,} claims in {count_noun(len(themes), 'topic')}",
        href="/topics",
        size=0,
        below=tuple(nodes),
    )
    busiest = max((count for theme in themes for count in theme.weeks), default=0) or 1
    shown = [theme.as_dict() for theme in themes[after : after + ROWS]]
    projects = dict.fromkeys(theme["workspace"] for theme in shown)
    end = after + ROWS if len(themes) > after + ROWS else None
    return {
        "topics": shown,
        "projects": [
            {
                "name": name,
                "topics": [one for one in shown if one["workspace"] == name],
            }
            for name in sorted(projects, key=lambda name: (name is None, name or ""))
        ],
        "icicle": list(lay_out(whole)),
        "most": busiest,
        "next": end,
    }


def show_topic(at: Explorer, id: Id, after: After = 0) -> Data:
    """Return a topic: its claims, summaries and history, and its pyramid as an icicle."""
    node = find_row(at, id, "topic").node
    title = name_topics(at.view, [node.id])[node.id]
    theme = next((item for item in at.memory.topics() if item.id == node.id), None)
    _, roots = build_scope(at, SummaryScope.TOPIC, node.id)
    claims = list_claims(at.view, ROWS + 1, after=after, topic=node.id)
    voices = find_voices(at.view, [item.id for item in claims])
    ends = (pc.field("topic_id") == node.id) | (pc.field("other_id") == node.id)
    history = read_rows(
        at=at,
        table=TOPIC_HISTORY,
        columns=["kind", "topic_id", "name", "other_id", "other_name"],
        where=ends,
    )
    return {
        "topic": node.as_dict(),
        "title": title,
        "theme": theme.as_dict() if theme else None,
        "icicle": list(
            lay_out(
                IcicleNode(
                    label=title,
                    href=f"/topic/{node.id}",
                    size=0,
                    below=tuple(roots),
                )
            )
        ),
        "claims": [
            item.as_dict() | {"by": voices.get(item.id)} for item in claims[:ROWS]
        ],
        "history": history[:ROWS],
        "next": after + ROWS if len(claims) > ROWS else None,
    }


def show_summary(at: Explorer, id: Id) -> Data:
    """Return a summary with its members, also as an icicle, and the rows that contain it."""
    lineage = find_row(at=at, row_id=id, kind="summary", depth=1)
    node = lineage.node.as_dict()
    nodes, _ = build_scope(at, node["scope"], node["scope_id"])
    return {
        "summary": {**node, "below": node.get("below", [])[:ROWS]},
        "above": [above.as_dict() for above in lineage.above],
        "icicle": list(lay_out(nodes[node["id"]])),
    }


PAGES = (
    Page("/topics", list_topics, "topics.html"),
    Page("/topic/{id}", show_topic, "topic.html"),
    Page("/summary/{id}", show_summary, "summary.html"),
)
