"""Probes: questions whose answer a person knows, kept in the space's folder, asked of each release to be."""

from pathlib import Path
from typing import NamedTuple

import orjson

from slowwave.schemas.errors import StoreUnreadable, UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.store.private import replace_file

FILE = "probes.jsonl"


class Probe(NamedTuple):
    """A question, and words that stand in one of the first hits while the memory knows the answer."""

    probe_id: str
    question: str
    answer: str


def read_probes(folder: Path) -> list[Probe]:
    """Return a space's probes, in the order in which they were added.

    Raises:
        StoreUnreadable: a line of the file is no probe.
    """
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.is_file() else []
    try:
        return [Probe(**orjson.loads(line)) for line in lines]
    except (orjson.JSONDecodeError, TypeError) as broken:
        raise StoreUnreadable(folder, f"{FILE}: {broken}") from broken


def add_probe(folder: Path, question: str, answer: str) -> Probe:
    """Keep a probe; one that is there already stays one.

    Raises:
        UsageError: the question or the answer is blank.
        StoreUnreadable: as `read_probes`.
    """
    if not (question.strip() and answer.strip()):
        raise UsageError("a probe is a question and words of its answer: both must say something")
    probe = Probe(compute_content_id(question, answer)[:12], question, answer)
    kept = read_probes(folder)
    if probe not in kept:
        _write(folder, [*kept, probe])
    return probe


def remove_probe(folder: Path, probe_id: str) -> Probe:
    """Remove the probe whose id begins so.

    Raises:
        UsageError: there is none, or there are several.
        StoreUnreadable: as `read_probes`.
    """
    kept = read_probes(folder)
    found = [probe for probe in kept if probe.probe_id.startswith(probe_id)]
    if len(found) != 1:
        raise UsageError(f"{len(found)} probes have an id that begins with {probe_id!r}: `slowwave probes list`")
    _write(folder, [probe for probe in kept if probe not in found])
    return found[0]


def _write(folder: Path, probes: list[Probe]) -> None:
    replace_file(folder / FILE, b"".join(orjson.dumps(probe._asdict()) + b"\n" for probe in probes))
