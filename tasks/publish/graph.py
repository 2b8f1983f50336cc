"""Write a release's claims and relations as GraphML, which yEd, Gephi, networkx and others read."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from slowwave.schemas.tables import CLAIMS, RELATIONS, Table
from slowwave.store.private import open_new
from slowwave.store.releases import Snapshot

FILE = "relations.graphml"
NODE = {
    "summary": "string",
    "category": "string",
    "workspace": "string",
    "speaker": "string",
    "status": "string",
}
NODE |= {"observed_at": "string", "confidence": "double"}
EDGE = {"kind": "string", "weight": "double", "reason": "string"}
CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF]
)
"""Characters that XML does not allow."""


def write_graph(
    snapshot: Snapshot, to: Path, confidences: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Write `relations.graphml` below `to`: a node for each claim, an edge for each relation from the later to the
    earlier claim.

    Returns rows, file and columns of both tables for the manifest. `confidences` has each claim's confidence by its id;
    it is higher than the table's column if several sessions state the claim.
    """
    root = Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    _add_keys(root, "node", NODE)
    _add_keys(root, "edge", EDGE)
    graph = SubElement(root, "graph", id=snapshot.release.name, edgedefault="directed")
    nodes = _read_rows(snapshot, CLAIMS, [CLAIMS.key, *NODE])
    edges = _read_rows(snapshot, RELATIONS, [RELATIONS.key, "from_id", "to_id", *EDGE])
    for row in nodes:
        key = row[CLAIMS.key]
        element = SubElement(graph, "node", id=key)
        _add_values(
            into=element,
            owner="node",
            columns=NODE,
            row=row | {"confidence": confidences[key]},
        )
    for row in edges:
        ends = {
            "id": row[RELATIONS.key],
            "source": row["from_id"],
            "target": row["to_id"],
        }
        _add_values(
            into=SubElement(graph, "edge", ends), owner="edge", columns=EDGE, row=row
        )
    indent(root, " ")
    with open_new(to / FILE) as out:
        out.write(tostring(root, encoding="utf-8", xml_declaration=True))
    return {
        CLAIMS.name: _describe_file(CLAIMS, NODE, len(nodes)),
        RELATIONS.name: _describe_file(RELATIONS, EDGE, len(edges)),
    }


def _add_keys(root: Element, owner: str, columns: dict[str, str]) -> None:
    """Declare the columns of nodes or edges."""
    for name, kind in columns.items():
        key = {"id": f"{owner}-{name}", "for": owner}
        SubElement(root, "key", key | {"attr.name": name, "attr.type": kind})


def _describe_file(table: Table, columns: dict[str, str], rows: int) -> dict[str, Any]:
    return {"rows": rows, "file": FILE, "key": table.key, "columns": columns}


def _read_rows(
    snapshot: Snapshot, table: Table, columns: list[str]
) -> list[dict[str, Any]]:
    """Return rows of a released table, sorted by its key."""
    return snapshot.read(table, columns).sort_by(table.key).to_pylist()  # type: ignore[no-any-return]


def _add_values(
    into: Element,
    owner: str,
    columns: dict[str, str],
    row: dict[str, Any],
) -> None:
    """Add a data element to a node or an edge for each column that is not null."""
    for name in columns:
        value = row[name]
        if value is not None:
            text = value.isoformat() if isinstance(value, datetime) else str(value)
            SubElement(into, "data", key=f"{owner}-{name}").text = text.translate(
                CONTROLS
            )
