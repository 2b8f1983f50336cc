"""A proposal: a unified diff that `patch -p1` or `git apply` takes. Nothing here writes to the files it is about."""

import difflib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from slowwave.doctor.check import Finding
from slowwave.doctor.entries import MARKDOWN


def build_patch(findings: Sequence[Finding], root: Path) -> str:
    """Return a diff, relative to `root`: a repetition within its file goes, what a session changed says the new.

    Only entries that have their lines to themselves are touched, and only in Markdown; contradictions and what nobody
    said are for a person.
    """
    edits: dict[Path, dict[int, str | None]] = defaultdict(dict)
    for finding in findings:
        entry, alone = finding.entry, finding.entry.alone
        if alone is None or not finding.sure or entry.path.suffix.lower() not in MARKDOWN:
            continue
        if finding.kind == "duplicate" and finding.other and finding.other.path == entry.path:
            edits[entry.path] |= dict.fromkeys(range(alone[0], alone[1] + 1))
        elif finding.kind == "changed" and finding.claim and alone[0] == alone[1]:
            edits[entry.path].setdefault(entry.line, _word(finding))
    return "".join(_diff(path, edits[path], root) for path in sorted(edits))


def _word(finding: Finding) -> str:
    claim = finding.claim or {}
    day = f" (since {claim['observed_at']:%Y-%m-%d})" if claim.get("observed_at") else ""
    return " ".join(claim["summary"].split()).rstrip(".") + day


def _diff(path: Path, edits: dict[int, str | None], root: Path) -> str:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    before = [line + "\n" for line in text.split("\n")]
    before[-1] = before[-1][:-1]
    before = before[:-1] if before[-1] == "" else before
    after = []
    for number, line in enumerate(before, 1):
        if number not in edits:
            after.append(line)
        elif (words := edits[number]) is not None:
            ending = line[len(line.rstrip("\r\n")) :]
            indent = line[: len(line) - len(line.lstrip())]
            marker = (
                line.split(maxsplit=1)[0] + " " if line.lstrip()[:1] in "-*+•" or line.lstrip()[:1].isdigit() else ""
            )
            after.append(f"{indent}{marker}{words}{ending}")
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    end = "\t" if " " in name else ""  # without which `patch` takes a name's first word for the name
    lines = difflib.unified_diff(before, after, f"a/{name}{end}", f"b/{name}{end}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
