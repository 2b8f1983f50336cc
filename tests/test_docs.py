"""What the documents name is there: folders, files, links, modules, commands and their options."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from slowwave.cli.main import GROUP, app, make_plugin_command
from slowwave.schemas.plugins import find_plugins

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "data" / "README.md"]
)
ROOMS = (
    "schemas",
    "tasks",
    "flows",
    "slowwave",
    "deployments",
    "bench",
    "data",
    "docs",
    "tests",
)
MADE = {"data/store", "data/store/demo"}
"""Folders that work makes, and git ignores."""

FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
OWN_PATH = re.compile(rf"(?<![\w./~-])((?:{'|'.join(ROOMS)})/[\w./*-]*)")
COMMAND = re.compile(r"(?:^|\$ |-- )slowwave ([a-z]\w*)([^#|]*)")
MODULE = re.compile(r"python -m ((?:bench|slowwave)[\w.]*)")

named = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


def code_of(document: Path) -> Iterator[str]:
    """Whatever a document marks as typed or named: its spans, and the lines of blocks for a shell."""
    text = document.read_text(encoding="utf-8")
    yield from SPAN.findall(FENCED.sub("", text))
    for language, block in FENCED.findall(text):
        if language in ("console", "sh", "bash"):
            yield from block.splitlines()


def has(path: str) -> bool:
    return (
        path.rstrip("/.") in MADE
        or any(ROOT.glob(path.rstrip("/.")))
        or (ROOT / path).exists()
    )


@named
def test_every_file_and_folder_of_ours_that_is_named_exists(document: Path) -> None:
    paths = {path for code in code_of(document) for path in OWN_PATH.findall(code)}
    assert not [path for path in paths if not has(path)]
    alone = {code for code in code_of(document) if re.fullmatch(r"\w+\.py", code)}
    assert not [
        name
        for name in alone
        if not any(any((ROOT / room).rglob(name)) for room in ROOMS)
    ]


@named
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(FENCED.sub("", document.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(document: Path) -> set[str]:
    """What a heading is called in a link, as GitHub makes it."""
    headings = re.findall(
        r"^#+ (.+)$", FENCED.sub("", document.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def list_commands() -> dict[str, Any]:
    """All commands by name, the plugins' among them."""
    own = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {name: make_plugin_command(name) for name in find_plugins(GROUP)} | own


@named
def test_every_command_that_is_named_exists_with_its_options(document: Path) -> None:
    known = list_commands()
    for code in code_of(document):
        for name, rest in COMMAND.findall(code):
            assert name in known, code
            options = {
                option
                for param in known[name].params
                for option in (*param.opts, *param.secondary_opts)
            }
            typed = re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest.split(" -- ")[0])
            assert {*typed} <= options | {"--help"}, code
        for module in MODULE.findall(code):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), code


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_newest_section_of_the_changelog_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\] - (\d{4}-\d\d-\d\d|unreleased)$", log, re.M)
    assert newest
    assert newest[1] == project["project"]["version"]


def test_paths_in_docstrings_and_comments_exist() -> None:
    lost = [
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("schemas", "tasks", "flows", "slowwave", "bench")
        for path in sorted((ROOT / room).rglob("*.py"))
        for code in SPAN.findall(path.read_text(encoding="utf-8"))
        for name in OWN_PATH.findall(code)
        if not has(name)
    ]
    assert not lost


def test_every_decision_is_in_the_index_and_says_what_was_asked_and_decided() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(folder.glob("[0-9]*.md"))
    assert len({page.name[:3] for page in pages}) == len(pages)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert f"({page.name})" in index, page.name
        assert text.startswith(f"# {page.name[:3]}. "), page.name
        assert all(
            part in text
            for part in ("**Question.**", "**Decided.**", "**What was cut", "\n|")
        ), page.name
        assert len(text.splitlines()) <= 40, page.name


@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("reference.py", "docs/commands.md"),
        ("tables.py", "docs/tables.md"),
        ("rows.py", "schemas/rows.py"),
    ],
)
def test_a_page_that_is_made_is_what_its_script_says(script: str, page: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / script)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / page).read_text(encoding="utf-8") == told


def test_the_site_is_built_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: `make dev`")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "PostgreSQL 17" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "recall_many" in (tmp_path / "api.html").read_text(encoding="utf-8")
