"""Redaction beside other scanners of secrets, in one run over the same lines.

    python -m bench.nights.scanners gitleaks.toml [--gitleaks PROGRAM] [--detect-secrets PROGRAM] [--ordinary DIR]
                                [--lines N] [--json]

Three sets: *rules*, examples made of gitleaks' own patterns (`bench.nights.redaction`); *kinds*, the generated lines of
`bench.fit.secrets`, for which the scorer here is fitted without the kind that a line is of; *ordinary*, 20,000 lines of
sessions in `data/` and of the texts below DIR, taken as without a secret. *caught*: the share of those with a secret
of which it, or a part, is found. *touched*: the share of the others in which anything is. A program that is not given
has no row. The notes list fifty of the ordinary lines that are touched here. Some minutes.
"""

import hashlib
import json
import random
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from bench.fit.secrets import (
    FOLDS,
    Example,
    fit_model,
    leave_out,
    make_examples,
    read_ordinary,
)
from bench.harness import SCRATCH, Figures, Row, run
from bench.nights.redaction import make_examples as make_rule_examples
from slowwave.text.redact import redact
from slowwave.text.secrets import score
from slowwave.text.secrets.score import iter_candidates

LINES = 20_000
SHOWN = 50
NO_PROGRAM = Path("(none)")


class Case(NamedTuple):
    """A text, and the secret in it; empty if there is none."""

    text: str
    secret: str


Scanner = Callable[[Sequence[Case], Path], list[bool]]
"""Returns for each case whether its secret is found, or anything in a case without one; a folder to work in."""


def measure(
    rules: Path,
    *,
    gitleaks: Path = NO_PROGRAM,
    detect_secrets: Path = NO_PROGRAM,
    ordinary: Path = NO_PROGRAM,
    lines: int = LINES,
    scratch: Path = SCRATCH,
) -> Figures:
    """Return a row a set and scanner."""
    true, harmless = make_rule_examples(tomllib.loads(rules.read_text("utf-8")))
    sets = {
        "rules": [
            *(Case(text, secret) for _, secret, text in true),
            *(Case(text, "") for text in harmless),
        ],
        "ordinary": [Case(line, "") for line in _take_lines(ordinary, lines)],
    }
    scanners: dict[str, Scanner] = {"slowwave": _scan_here}
    if gitleaks != NO_PROGRAM:
        scanners["gitleaks"] = lambda cases, folder: _run_gitleaks(
            gitleaks, cases, folder
        )
    if detect_secrets != NO_PROGRAM:
        scanners["detect-secrets"] = lambda cases, folder: _run_detect_secrets(
            detect_secrets, cases, folder
        )
    rows, notes = list[Row](), list[str]()
    generated, found_here = _scan_left_out()
    rows.append(_make_row("kinds", "slowwave", generated, found_here))
    for name, scan in scanners.items():
        for about, cases in (sets | {"kinds": generated}).items():
            if (about, name) != ("kinds", "slowwave"):
                found = scan(cases, scratch / f"{name}-{about}")
                rows.append(_make_row(about, name, cases, found))
                if (about, name) == ("ordinary", "slowwave"):
                    notes = _show_touched(cases, found)
    return Figures(sorted(rows, key=lambda row: str(row["set"])), notes=notes)


def _make_row(
    about: str, name: str, cases: Sequence[Case], found: Sequence[bool]
) -> dict[str, object]:
    """Return the shares of a scanner over a set."""
    pairs = list(zip(cases, found, strict=True))
    hits = [hit for case, hit in pairs if case.secret]
    touched = [hit for case, hit in pairs if not case.secret]
    return {
        "set": about,
        "scanner": name,
        "with a secret": len(hits),
        "caught": round(sum(hits) / max(1, len(hits)), 4),
        "without": len(touched),
        "touched": round(sum(touched) / max(1, len(touched)), 4),
    }


def _show_touched(cases: Sequence[Case], found: Sequence[bool]) -> list[str]:
    """Return some of the lines that are touched, as they are redacted."""
    touched = [case.text for case, hit in zip(cases, found, strict=True) if hit]
    some = random.Random(0).sample(touched, min(SHOWN, len(touched)))
    notes = []
    for text in some:
        clean = redact(text)[0]
        at = max(0, clean.find("[redacted:") - 60)
        notes.append(f"touched  {clean[at : at + 160]!r}")
    return notes


def _take_lines(folder: Path, most: int) -> list[str]:
    """Return at most so many lines of ordinary sessions: samples, labelled sessions, and texts below a folder."""
    lines = [*_list_lines(read_ordinary())]
    if folder != NO_PROGRAM:
        lines += _list_lines(_read_texts(folder))
    lines = list(dict.fromkeys(lines))
    return random.Random(0).sample(lines, min(most, len(lines)))


def _list_lines(texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        yield from (line for line in text.splitlines() if line.strip())


def _read_texts(folder: Path) -> Iterator[str]:
    """Yield the texts of JSON lines below a folder."""
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            said = (
                row.get("content") or row.get("text") if isinstance(row, dict) else ""
            )
            if isinstance(said, str):
                yield said


def _scan_here(cases: Sequence[Case], folder: Path) -> list[bool]:
    """Return for each case whether redaction here finds it."""
    return [_is_found(case) for case in cases]


def _is_found(case: Case) -> bool:
    """Return True if the secret is masked, or anything in a case without one."""
    clean, counts = redact(case.text)
    return case.secret not in clean if case.secret else bool(counts)


def _scan_left_out() -> tuple[list[Case], list[bool]]:
    """Return the generated lines, and what is found in each by the rules and a scorer that did not learn its kind."""
    examples = make_examples()
    ordinary = [
        Example("ordinary", text, start, end, False)
        for text in read_ordinary()
        for start, end in iter_candidates(text)
    ]
    ours = make_examples(seed=1)
    cases, found = list[Case](), list[bool]()
    for fold in range(FOLDS):
        # a fifth of the kinds, and a fifth of the templates without a secret
        kinds, templates = leave_out(examples, fold)
        learnt = [
            one
            for one in examples
            if one.kind not in kinds and one.template not in templates
        ]
        model = fit_model([*learnt, *ordinary])
        own = _make_cases(
            [one for one in ours if one.kind in kinds or one.template in templates]
        )
        with patch.object(score, "load_secret_model", lambda model=model: model):
            found += [_is_found(case) for case in own]
        cases += own
    return cases, found


def _make_cases(examples: Sequence[Example]) -> list[Case]:
    """Return a case a line: its first secret, or none in lines of the kind that has none."""
    by_text = dict[str, str]()
    for one in examples:
        word = one.text[one.start : one.end] if one.secret else ""
        by_text[one.text] = by_text.get(one.text) or word
    none = {one.text for one in examples if one.kind == "none"}
    return [
        Case(text, secret) for text, secret in by_text.items() if secret or text in none
    ]


def _write_cases(cases: Sequence[Case], folder: Path) -> None:
    """Write each case to a file of its own, a thousand in a folder."""
    for n, case in enumerate(cases):
        path = folder / f"{n // 1000:03}" / f"{n:06}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(case.text, encoding="utf-8", errors="replace")


def _run_gitleaks(program: Path, cases: Sequence[Case], folder: Path) -> list[bool]:
    """Return for each case whether gitleaks finds it."""
    _write_cases(cases, folder)
    report = folder.with_suffix(".json")
    command = [
        str(program),
        "dir",
        str(folder),
        "--no-banner",
        "--exit-code=0",
        "--report-format=json",
        f"--report-path={report}",
    ]
    subprocess.run(command, check=True, capture_output=True)
    found = [False] * len(cases)
    for finding in json.loads(report.read_text("utf-8")):
        at = int(Path(finding["File"]).stem)
        secret, told = cases[at].secret, f"{finding['Secret']}\n{finding['Match']}"
        found[at] |= not secret or secret in told or finding["Secret"] in secret
    return found


def _run_detect_secrets(
    program: Path, cases: Sequence[Case], folder: Path
) -> list[bool]:
    """Return for each case whether detect-secrets finds it, which names a finding by its line and its hash."""
    _write_cases(cases, folder)
    command = [str(program), "scan", "--all-files", "--no-verify", "."]
    done = subprocess.run(command, check=True, capture_output=True, cwd=folder)
    found = [False] * len(cases)
    for name, findings in json.loads(done.stdout)["results"].items():
        at = int(Path(name).stem)
        for finding in findings:
            found[at] |= _is_same(cases[at], finding)
    return found


def _is_same(case: Case, finding: dict[str, object]) -> bool:
    """Return True if a finding is the case's secret, or stands in the line that has it."""
    if not case.secret:
        return True
    digest = hashlib.sha1(case.secret.encode(), usedforsecurity=False).hexdigest()
    lines = case.text.splitlines()
    number = int(str(finding["line_number"]))
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    return finding["hashed_secret"] == digest or case.secret in line


if __name__ == "__main__":
    run(measure)
