"""The rules of who imports whom, that docs/architecture.md states, read from the sources."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.house import read_imports, read_modules
from tests.bench_inputs import ROOT

MODULES = read_modules(ROOT)
LAYERS = [
    "schemas",
    "resident",
    "text",
    "engines",
    "store",
    "recall",
    "context",
    "memory",
    "mcp cli ui",
]
"""Each may import those to its left and, of its own place, `cli` the server of MCP."""
PIPELINE = ("tasks", "flows")
BIGGEST_FOLDER = 16
"""Modules of the fullest folder, `__init__` among them; what is more goes into folders by subject."""
OVER_THE_STORE = {
    "slowwave.tasks.job": "opens the store of a run",
    "slowwave.tasks.quarantine": "writes down what a step could not use, and what it can by now",
    "slowwave.tasks.memory_words": "samples what people wrote",
    "slowwave.tasks.pending": "reads which sessions a step has not done, and marks them done",
    "slowwave.tasks.vectors": "looks up the vectors that the store keeps",
    "slowwave.tasks.llm.ask": "keeps a model's answers in the store before they are used",
    "slowwave.tasks.llm.writer": "reads who wrote a memory, and clears its rows for another writer",
    "slowwave.tasks.ingest.store_messages": "writes down what reading gave",
    "slowwave.tasks.ingest.vault": "computes the vault's chains again, from its rows",
    "slowwave.tasks.observe.corrections": "reads which claims a person corrected, and by which note",
    "slowwave.tasks.publish.export": "streams a released table into a file",
    "slowwave.tasks.publish.graph": "writes a release as a graph",
    "slowwave.tasks.forget.select": "reads which messages are meant",
    "slowwave.tasks.forget.lineage": "finds by way of the tables what goes, and writes it down",
    "slowwave.tasks.forget.stages": "the erasing itself",
    "slowwave.tasks.forget.logs": "rewrites what slowwave itself wrote beside the tables",
    "slowwave.tasks.forget.exports": "reads which exports were made",
    "slowwave.tasks.forget.plan": "reads what is forgotten",
    "slowwave.tasks.forget.proof": "reads every file of the space as bytes, and the ledger's rows",
    "slowwave.tasks.boilerplate.echo": "hashes a sentence as the log of recalls does; the log itself is handed in",
}
"""Modules of `tasks` beside `task.py` and `by_model.py` that know the store, and what for."""
OF_RECALL = {
    "slowwave.tasks.publish.task": "a release keeps the scale of relevance that recall's own scores give"
}


@cache
def find_all_imports(path: Path) -> set[str]:
    """Everything that a file imports, inside functions and for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def name_room(module: str) -> str:
    """The package below `slowwave` that a module stands in."""
    return module.split(".")[1] if module.startswith("slowwave.") else ""


def find_edges(*rooms: str) -> Iterator[tuple[str, str]]:
    """Each module of these rooms with each room of ours that it imports."""
    for module, path in MODULES.items():
        if name_room(module) in rooms:
            yield from (
                (module, room)
                for one in find_all_imports(path)
                if (room := name_room(one)) and room != name_room(module)
            )


def test_nobody_imports_the_folders_of_the_top_level() -> None:
    paths = [
        *MODULES.values(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "bench").rglob("*.py"),
    ]
    tops = {
        (path.name, one.split(".")[0])
        for path in paths
        for one in find_all_imports(path)
    }
    assert [
        (path, top) for path, top in tops if top in ("tasks", "flows", "schemas")
    ] == []


@pytest.mark.parametrize("layer", range(len(LAYERS) - 1))
def test_a_layer_imports_only_those_below_it(layer: int) -> None:
    above = {room for row in LAYERS[layer + 1 :] for room in row.split()} | set(
        PIPELINE
    )
    assert [
        edge for edge in find_edges(*LAYERS[layer].split()) if edge[1] in above
    ] == []


def test_rooms_side_by_side_import_one_another_in_one_direction() -> None:
    assert {(name_room(a), b) for a, b in find_edges("mcp") if b == "cli"} == set()


def test_the_core_imports_no_plugin() -> None:
    core = {name_room(module) for module in MODULES} - {"plugins"}
    assert [edge for edge in find_edges(*core) if edge[1] == "plugins"] == []


def test_encryption_of_the_disk_reaches_the_core_through_the_place_of_the_store() -> (
    None
):
    named = {
        module
        for module, path in MODULES.items()
        for one in find_all_imports(path)
        if one.startswith("slowwave.store.encrypted_disk.")
    }
    # Both show which encryption a disk has.
    assert named == {
        "slowwave.store.place",
        "slowwave.flows.ledgers",
        "slowwave.flows.status",
    }


def test_plugins_do_not_import_one_another() -> None:
    plugins = {
        name: name.split(".")[2]
        for name in MODULES
        if name.startswith("slowwave.plugins.") and "." in name[17:]
    }
    for module, plugin in plugins.items():
        others = [
            one
            for one in find_all_imports(MODULES[module])
            if one.startswith("slowwave.plugins.")
        ]
        assert {one.split(".")[2] for one in others} <= {plugin}, module


def test_nobody_imports_the_command() -> None:
    # A plugin adds a command with its means.
    others = {name_room(module) for module in MODULES} - {
        "cli",
        "plugins",
    }
    assert {edge for edge in find_edges(*others) if edge[1] == "cli"} == {
        ("slowwave.__main__", "cli")
    }


def test_the_flows_know_nobody_who_shows_them() -> None:
    assert [
        edge
        for edge in find_edges("flows")
        if edge[1] in ("cli", "mcp", "ui", "plugins")
    ] == []


def test_steps_know_neither_the_flows_nor_those_who_ask() -> None:
    above = {"flows", "cli", "mcp", "ui", "plugins", "memory", "context"}
    assert [edge for edge in find_edges("tasks") if edge[1] in above] == []
    assert {module for module, room in find_edges("tasks") if room == "recall"} == set(
        OF_RECALL
    )


def test_the_pure_files_of_steps_do_not_know_the_store() -> None:
    pure = {
        name
        for name in MODULES
        if name_room(name) == "tasks" and MODULES[name].stem not in ("task", "by_model")
    }
    assert {
        module
        for module, room in find_edges("tasks")
        if room == "store" and module in pure
    } == set(OVER_THE_STORE)


def test_prefect_is_imported_in_one_module_and_by_the_helper_that_hides_settings_from_it() -> (
    None
):
    named = {
        name
        for name, path in MODULES.items()
        if any(one.split(".")[0] == "prefect" for one in find_all_imports(path))
    }
    assert named == {"slowwave.flows.prefect", "slowwave.cli.under_prefect"}


def test_no_circle_of_imports() -> None:
    left = {name: set(imported) for name, imported in read_imports(MODULES).items()}
    while free := {
        name for name, imported in left.items() if not imported & left.keys()
    }:
        left = {name: imported for name, imported in left.items() if name not in free}
    assert left == {}


def test_no_folder_holds_more_modules_than_a_reader_keeps_in_mind() -> None:
    paths = [*MODULES.values(), *(ROOT / "bench").rglob("*.py")]
    folders = Counter(path.parent.relative_to(ROOT) for path in paths)
    assert {
        str(folder): count
        for folder, count in folders.items()
        if count > BIGGEST_FOLDER
    } == {}
