"""Read the manifests of a project: what it depends on, in which versions, and which scripts it has.

Each format is read by its own parser; setup.py is parsed and never run. What can't be parsed says nothing.
"""

import ast
import configparser
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from slowwave.schemas.vocabulary import CheckKind

Facts = dict[tuple[CheckKind, str], set[str]]
"""By dependency or script the versions that manifests ask for; empty texts if any will do."""
PYTHON = "python"
NODE = "node"
ALIASES = {
    "python_requires": PYTHON,
    "requires-python": PYTHON,
    "node.js": NODE,
    "nodejs": NODE,
}
"""Other names of a runtime."""
TARGET = re.compile(r"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)
"""A target of a Makefile, or a recipe of a justfile."""
GO = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w./-]+)\s+v(\d[\w.+-]*)", re.MULTILINE)
CARET = re.compile(r"[~^]\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")
WILD = re.compile(r"=?\s*v?(\d+(?:\.\d+)*)(?:\.[xX*])+")
HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")


def read_manifest(name: str, content: bytes) -> Iterator[tuple[CheckKind, str, str]]:
    """Yield kind, name and version of what a manifest has; nothing for what can't be parsed.

    Args:
        name: the file's name, without its folders.
        content: the file's.
    """
    read = find_reader(name)
    if read is None:
        return
    with suppress(
        ValueError,
        SyntaxError,
        RecursionError,
        TypeError,
        AttributeError,
        configparser.Error,
    ):
        for kind, key, version in list(read(content.decode("utf-8", "replace"))):
            is_script = kind is CheckKind.SCRIPT
            yield kind, key if is_script else normalise_package(key), str(version)


Reader = Callable[[str], Iterator[tuple[CheckKind, str, str]]]


def find_reader(name: str) -> Reader | None:
    """Return the reader of a manifest by its file's name; None for any other file."""
    if re.fullmatch(r"(?:.*requirements.*|constraints.*)\.(?:txt|in)", name):
        return _read_requirements
    return READERS.get(name)


def collect_facts(manifests: Mapping[str, bytes]) -> Facts:
    """Return the facts of manifests, by path; a project does not depend on itself."""
    facts: Facts = defaultdict(set)
    for path, content in manifests.items():
        for kind, name, version in read_manifest(path.rpartition("/")[2], content):
            facts[kind, name].add(version)
    own = {name for kind, name in facts if kind is CheckKind.NAME}
    return {
        (kind, name): versions
        for (kind, name), versions in facts.items()
        if kind is not CheckKind.NAME
        and (kind is not CheckKind.DEPENDENCY or name not in own)
    }


def normalise_package(name: str) -> str:
    """Return a package's name as it is compared."""
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    return lower if "/" in lower else re.sub(r"[-_.]+", "-", lower)


def holds_version(stated: str, versions: set[str]) -> bool:
    """Return True if what is said of a version agrees with what some manifest asks for.

    A bare version agrees if it is one of the bounds, or lies within them; one with an operator, if that bound is there.
    """
    return any(
        all(_holds(bound, version) for bound in stated.split(","))
        for version in versions
    )


def _holds(stated: str, version: str) -> bool:
    match = re.fullmatch(r"(\D*)(\d[\d.]*?)(?:\.[x*])?", stated)
    if match is None:
        return False
    operator, number = match.groups()
    sets = _parse_range(version)
    if sets is None:
        return bool(re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", version))
    said = number.split(".")
    for bounds in sets:
        for bound in bounds:
            is_same = bound.version.removesuffix(".*").split(".")[: len(said)] == said
            if is_same and (not operator or _alike(operator, bound.operator, version)):
                return True
        with suppress(InvalidVersion):
            is_within = bounds and bounds.contains(Version(number), prereleases=True)
            if is_within and not operator:
                return True
    return False


def _alike(stated: str, stored: str, version: str) -> bool:
    """Return True if two operators may stand for one another."""
    return stated == stored or (stated in ("^", "~") and stated in version)


def _parse_range(version: str) -> list[SpecifierSet] | None:
    """Return the alternatives of a range of Python's, npm's, Poetry's or Cargo's; None for another text."""
    sets = []
    for part in version.split("||"):
        plain = HYPHEN.sub(r">=\1,<=\2", part.strip())
        plain = WILD.sub(r"==\1.*", CARET.sub(_spell_caret, plain))
        plain = re.sub(r"([\d*])\s+(?=[<>=~!])", r"\1,", plain)
        plain = re.sub(r"(^|[,\s])=?v?(?=\d)", r"\1==", plain)
        plain = re.sub(r"([<>])\s*=\s*==", r"\1=", plain).replace("<==", "<=")
        plain = re.sub(r"([<>!=~]=?=?)\s*==(?=\d)", r"\1", plain)
        with suppress(InvalidSpecifier):
            sets.append(SpecifierSet("" if plain in ("*", "latest") else plain))
    return sets or None


def _spell_caret(match: re.Match[str]) -> str:
    """Return `^1.2.3` or `~1.2.3` as bounds."""
    major, minor, patch = (int(n) if n else None for n in match.groups())
    low = ".".join(str(n or 0) for n in (major, minor, patch))
    if match[0].startswith("~") and minor is not None:
        return f">={low},<{major}.{minor + 1}"
    if major or minor is None or match[0].startswith("~"):
        return f">={low},<{(major or 0) + 1}"
    return (
        f">={low},<0.{minor + 1}"
        if minor or patch is None
        else f">={low},<0.0.{patch + 1}"
    )


def _read_requirement(line: Any) -> Iterator[tuple[CheckKind, str, str]]:
    with suppress(InvalidRequirement, TypeError):
        requirement = Requirement(line)
        yield CheckKind.DEPENDENCY, requirement.name, str(requirement.specifier)


def _read_requirements(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    for line in text.splitlines():
        yield from _read_requirement(re.split(r"\s#|^#|\s--hash", line)[0].strip())


def _read_pyproject(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    table = tomllib.loads(text)
    project = table.get("project", {})
    tool = table.get("tool", {})
    poetry = tool.get("poetry", {})
    for named in (project.get("name"), poetry.get("name")):
        yield from [(CheckKind.NAME, named, "")] if named else []
    if "requires-python" in project:
        yield CheckKind.DEPENDENCY, PYTHON, project["requires-python"]
    lists = [
        project.get("dependencies", ()),
        table.get("build-system", {}).get("requires", ()),
    ]
    lists += [*project.get("optional-dependencies", {}).values()]
    lists += [
        *table.get("dependency-groups", {}).values(),
        tool.get("uv", {}).get("dev-dependencies", ()),
    ]
    for lines in lists:
        for line in lines:
            yield from _read_requirement(line)
    groups = [poetry, *poetry.get("group", {}).values()]
    for group in groups:
        for key in ("dependencies", "dev-dependencies"):
            yield from _read_pairs(group.get(key, {}))
    for scripts in (
        project.get("scripts"),
        poetry.get("scripts"),
        project.get("gui-scripts"),
    ):
        yield from ((CheckKind.SCRIPT, name, "") for name in scripts or ())


def _read_pairs(table: Mapping[str, Any]) -> Iterator[tuple[CheckKind, str, str]]:
    """Yield names and versions, each version a text or a table that has one."""
    for name, given in table.items():
        version = given.get("version", "") if isinstance(given, dict) else given
        yield CheckKind.DEPENDENCY, name, version if isinstance(version, str) else ""


def _read_setup_cfg(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    config = configparser.ConfigParser(strict=False, interpolation=None)
    config.read_string(text)
    if config.has_option("metadata", "name"):
        yield CheckKind.NAME, config["metadata"]["name"], ""
    if config.has_option("options", "python_requires"):
        yield CheckKind.DEPENDENCY, PYTHON, config["options"]["python_requires"]
    lines = [config.get("options", "install_requires", fallback="")]
    if config.has_section("options.extras_require"):
        lines += [value for _, value in config.items("options.extras_require")]
    yield from _read_requirements("\n".join(lines))


REQUIRING = ("install_requires", "extras_require", "tests_require", "setup_requires")


def _read_setup_py(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        for word in call.keywords:
            if word.arg == "python_requires" and isinstance(word.value, ast.Constant):
                yield CheckKind.DEPENDENCY, PYTHON, str(word.value.value)
            if word.arg == "name" and isinstance(word.value, ast.Constant):
                yield CheckKind.NAME, str(word.value.value), ""
            if word.arg in REQUIRING:
                values = word.value
                parts = values.values if isinstance(values, ast.Dict) else [values]
                for part in parts:
                    yield from _read_strings(part)
            if word.arg == "entry_points":
                for script in re.findall(
                    r"^\s*([\w.-]+)\s*=\s*[\w.]+:",
                    _join_strings(word.value),
                    re.MULTILINE,
                ):
                    yield CheckKind.SCRIPT, script, ""
    for assigned in ast.walk(ast.parse(text)):  # lists that are given a name first
        if isinstance(assigned, ast.Assign) and isinstance(assigned.value, ast.List):
            yield from _read_strings(assigned.value)


def _read_strings(tree: ast.AST) -> Iterator[tuple[CheckKind, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _read_requirement(node.value)


def _join_strings(tree: ast.AST) -> str:
    nodes = ast.walk(tree)
    return "\n".join(
        str(node.value) for node in nodes if isinstance(node, ast.Constant)
    )


def _read_package_json(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    table = json.loads(text)
    yield from [(CheckKind.NAME, table["name"], "")] if table.get("name") else []
    for key in (
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
        "engines",
    ):
        yield from _read_pairs(table.get(key) or {})
    yield from ((CheckKind.SCRIPT, name, "") for name in table.get("scripts") or ())
    programs = table.get("bin") or {}
    names = programs if isinstance(programs, dict) else [table.get("name", "")]
    yield from ((CheckKind.SCRIPT, name, "") for name in names)


def _read_cargo(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    table = tomllib.loads(text)
    for key in ("dependencies", "dev-dependencies", "build-dependencies"):
        for kind, name, version in _read_pairs(table.get(key, {})):
            yield kind, name, f"^{version}" if version[:1].isdigit() else version
    if "name" in table.get("package", {}):
        yield CheckKind.NAME, table["package"]["name"], ""
    if "rust-version" in table.get("package", {}):
        yield CheckKind.DEPENDENCY, "rust", f">={table['package']['rust-version']}"


def _read_go(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    for name, version in GO.findall(text):
        yield CheckKind.DEPENDENCY, name, f"=={version}"
        yield CheckKind.DEPENDENCY, name.rpartition("/")[2], f"=={version}"
    for version in re.findall(r"^go (\d[\d.]*)", text, re.MULTILINE):
        yield CheckKind.DEPENDENCY, "go", f">={version}"


def _read_targets(text: str) -> Iterator[tuple[CheckKind, str, str]]:
    yield from ((CheckKind.SCRIPT, name, "") for name in TARGET.findall(text))


READERS: dict[str, Reader] = {
    "pyproject.toml": _read_pyproject,
    "setup.cfg": _read_setup_cfg,
    "setup.py": _read_setup_py,
    "package.json": _read_package_json,
    "Cargo.toml": _read_cargo,
    "go.mod": _read_go,
    "Makefile": _read_targets,
    "justfile": _read_targets,
    ".python-version": lambda text: iter(
        [(CheckKind.DEPENDENCY, PYTHON, f"=={text.strip()}.*")]
    ),
    ".nvmrc": lambda text: iter(
        [(CheckKind.DEPENDENCY, NODE, f"=={text.strip().lstrip('v')}.*")]
    ),
}
