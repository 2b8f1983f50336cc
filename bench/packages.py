"""What each way to install slowwave brings: packages and megabytes, counted on those that this Python has.

    python -m bench.packages

Requirements are pyproject.toml's, and those of each installed package; sizes are its own record of its files. A torch
for the CPU is a third of what PyPI's, for CUDA, takes with the libraries that it asks for.
"""

import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.harness import build_parser, print_rows

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
WAYS = ("slowwave", "slowwave[mcp]", "slowwave[ui]", "slowwave[night]", "slowwave[dev]")


def find_packages(wanted: str) -> dict[str, Distribution]:
    """Return the installed packages, by name, that a requirement brings; slowwave itself is none of them.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    todo, seen, found = [Requirement(wanted)], set[str](), dict[str, Distribution]()
    while todo:
        asked = todo.pop()
        if str(asked) in seen:
            continue
        seen.add(str(asked))
        if asked.name == project["name"]:
            extras = project["optional-dependencies"]
            lines = [*project["dependencies"], *(line for extra in asked.extras for line in extras[extra])]
        else:
            package = found[canonicalize_name(asked.name)] = distribution(asked.name)
            lines = package.requires or []
        needed = [Requirement(line) for line in lines]
        todo += [one for one in needed if _is_needed(one, asked.extras)]
    return found


def _is_needed(one: Requirement, extras: set[str]) -> bool:
    return one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def sum_megabytes(packages: dict[str, Distribution]) -> float:
    """Return what the packages' files take, by their own records."""
    return sum(file.size or 0 for package in packages.values() for file in package.files or ()) / 1e6


def count_packages(way: str) -> dict[str, Any]:
    """Return packages and megabytes of one way to install, or what of it is not installed here."""
    try:
        packages = find_packages(way)
    except PackageNotFoundError as missing:
        return {"install": way, "packages": f"not installed here: {missing.name}", "megabytes": None}
    return {"install": way, "packages": len(packages), "megabytes": round(sum_megabytes(packages))}


def main() -> None:
    """Print a row for each way to install."""
    given = build_parser(__doc__).parse_args()
    print_rows([count_packages(way) for way in WAYS], given.as_json)


if __name__ == "__main__":
    main()
