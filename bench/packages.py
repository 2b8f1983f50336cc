"""What each way to install slowwave brings: packages and megabytes, counted on those that this Python has.

    python -m bench.packages
    python -m bench.packages --write    # writes requirements.txt: a night, the pages and MCP, without torch

Requirements are pyproject.toml's, and those of each installed package; sizes are its own record of its files. A torch
for the CPU is a third of what PyPI's, for CUDA, takes with the libraries that it asks for.
"""

import tomllib
from collections.abc import Collection
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.harness import ROOT, Figures, Row, run

WAYS = ("slowwave", "slowwave[mcp]", "slowwave[ui]", "slowwave[night]", "slowwave[dev]")
LIGHT = "slowwave[night,mcp,ui]"
"""What `make demo` and requirements.txt install, without `TORCH`."""
REQUIREMENTS, CONSTRAINTS = ROOT / "requirements.txt", ROOT / "constraints.txt"
TORCH = frozenset((ROOT / "deployments" / "without-torch.txt").read_text().split())
"""KeyBERT names sentence-transformers, which names the other two; a night on a CPU imports none of the three."""
EDITABLE = "editables"
"""What hatchling makes an editable install need; nothing here imports it."""
HEAD = """# A night, the pages and MCP without torch, complete: for `pip install --no-deps -r requirements.txt .`
# Written by `python -m bench.packages --write`. Linux and macOS, Python 3.11 to 3.13.
"""


def measure(*, write: bool = False) -> Figures:
    """Return a row for each way to install."""
    if write:
        REQUIREMENTS.write_text(render_requirements(), encoding="utf-8")
    return Figures(
        [
            *(count_packages(way) for way in WAYS),
            count_packages(LIGHT, TORCH),
        ]
    )


def render_requirements() -> str:
    """Return the text of requirements.txt: the pins of every package that `LIGHT` needs, without `TORCH`.

    A pin of constraints.txt that only another Python needs is included with its marker.

    Raises:
        PackageNotFoundError: one of the packages is not installed.
    """
    needed, pins = {EDITABLE, *find_packages(LIGHT, TORCH)}, list[str]()
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pin = Requirement(line)
        is_for_another_python = pin.marker is not None and not pin.marker.evaluate()
        if is_for_another_python or canonicalize_name(pin.name) in needed:
            pins.append(line)
    return HEAD + "\n".join(pins) + "\n"


def count_packages(way: str, without: Collection[str] = ()) -> Row:
    """Return packages and megabytes of one way to install, or the packages of it that are not installed here."""
    name = f"{way} without torch" if without else way
    try:
        packages = find_packages(way, without)
    except PackageNotFoundError as missing:
        return {
            "install": name,
            "packages": f"not installed here: {missing.name}",
            "megabytes": None,
        }
    size = sum(
        file.size or 0 for package in packages.values() for file in package.files or ()
    )
    return {"install": name, "packages": len(packages), "megabytes": round(size / 1e6)}


def find_packages(
    wanted: str, without: Collection[str] = ()
) -> dict[str, Distribution]:
    """Return the installed packages, by name, that a requirement brings; slowwave itself is none of them.

    Args:
        wanted: a requirement, as pip takes it.
        without: packages that are left out, and with them what they alone need.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    todo, seen, found = [Requirement(wanted)], set[str](), dict[str, Distribution]()
    while todo:
        asked = todo.pop()
        if str(asked) in seen or canonicalize_name(asked.name) in without:
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
