"""What each way to install slowwave brings: packages and megabytes, counted on those that this Python has.

    python -m bench.packages

Requirements are pyproject.toml's, and those of each installed package; sizes are its own record of its files. A torch
for the CPU is a third of what PyPI's, for CUDA, takes with the libraries that it asks for.
"""

import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.harness import ROOT, Figures, Row, run

WAYS = ("slowwave", "slowwave[mcp]", "slowwave[ui]", "slowwave[night]", "slowwave[dev]")


def measure() -> Figures:
    """Return a row for each way to install."""
    return Figures([count_packages(way) for way in WAYS])


def count_packages(way: str) -> Row:
    """Return packages and megabytes of one way to install, or what of it is not installed here."""
    try:
        packages = find_packages(way)
    except PackageNotFoundError as missing:
        return {
            "install": way,
            "packages": f"not installed here: {missing.name}",
            "megabytes": None,
        }
    size = sum(
        file.size or 0 for package in packages.values() for file in package.files or ()
    )
    return {"install": way, "packages": len(packages), "megabytes": round(size / 1e6)}


def find_packages(wanted: str) -> dict[str, Distribution]:
    """Return the installed packages, by name, that a requirement brings; slowwave itself is none of them.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    todo, seen, found = [Requirement(wanted)], set[str](), dict[str, Distribution]()
    while todo:
        asked = todo.pop()
        if str(asked) in seen:
            continue
        seen.add(str(asked))
        if asked.name == project["name"]:
            extras = project["optional-dependencies"]
            lines = [
                *project["dependencies"],
                *(line for extra in asked.extras for line in extras[extra]),
            ]
        else:
            package = found[canonicalize_name(asked.name)] = distribution(asked.name)
            lines = package.requires or []
        environments = [{"extra": extra} for extra in ("", *asked.extras)]
        todo += [
            needed
            for needed in map(Requirement, lines)
            if needed.marker is None or any(map(needed.marker.evaluate, environments))
        ]
    return found


if __name__ == "__main__":
    run(measure)
