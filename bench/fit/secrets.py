"""Learns which words are secrets from generated lines, and how well that holds for kinds of lines not seen.

    python -m bench.fit.secrets [--write] [--json]

Lines are made of `data/labelled/secrets.tsv`: a kind and a template, whose fields in capitals become secrets and the
others what only looks like one, drawn from a seed. The lines of the kind `none`, and all of `data/samples` and the
labelled sessions, have no secret. Each kind is judged by a model of the other kinds. Columns: *lines*, and the share
*masked*. `--write` writes the model that ships. Time: a minute.
"""

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Any, NamedTuple

import numpy as np

from bench.harness import LABELLED, ROOT, Figures, Row, run
from slowwave.text.redact import CERTAIN
from slowwave.text.secrets.score import (
    BUCKETS,
    MODEL_FILE,
    SecretModel,
    hash_feature,
    iter_candidates,
    list_features,
)

TEMPLATES = LABELLED / "secrets.tsv"
FILLS, FOLDS = 12, 5
"""Lines made of a template; parts that the kinds are divided into."""
LONGEST_AROUND = 120
"""Letters of a line that is put around one with a secret."""
STRENGTH = 1.0
"""Inverse of the penalty on weights."""
FIELD = re.compile(r"\{([A-Z]{2,}[0-9]*|[a-z]{2,}[0-9]*)\}")
WORDS = [
    "lamp",
    "quay",
    "ferry",
    "mill",
    "crane",
    "dock",
    "tide",
    "harbor",
    "gauge",
    "rope",
    "buoy",
    "sail",
    "anchor",
    "pier",
    "cargo",
    "hull",
]
NAMES = [
    "ada",
    "ben",
    "clara",
    "dora",
    "emil",
    "fred",
    "gina",
    "hugo",
    "ines",
    "jan",
    "kira",
    "lars",
    "mona",
    "nils",
    "olga",
    "paul",
    "rosa",
    "sven",
    "tom",
    "vera",
]
NAMED = re.compile(r"\b(?:ada|app|shop|ferry|lamp|mail)\b")
"""Names in templates, of which none may be learnt."""
SAMPLES = ROOT / "data" / "samples"


class Example(NamedTuple):
    """A candidate in a line."""

    kind: str
    text: str
    start: int
    end: int
    secret: bool
    template: int = -1
    """Number of the template that the line was made of; -1 for a real one."""


MIXED, HEX = ascii_letters + digits, "0123456789abcdef"


def draw_field(name: str, draw: random.Random) -> str:
    """Return a value for a field of a template."""
    drawn = FIELDS.get(name.lower())
    if drawn:
        return drawn(draw)
    length = name.lower().removeprefix("hex")
    if length != name.lower():
        return _draw_some(HEX, int(length or draw.choice((32, 40, 64))), draw)
    return f"{{{name}}}"


def _draw_some(letters: str, length: int, draw: random.Random) -> str:
    return "".join(draw.choice(letters) for _ in range(length))


def _draw_password(draw: random.Random) -> str:
    """Return a password of one of six forms: a name and figures, letters and figures, a word and a sign, and so on."""
    length, ending = (
        draw.randint(5, 16),
        _draw_some(digits, 1, draw) + _draw_some(ascii_lowercase, 1, draw),
    )
    match draw.randrange(6):
        case 0:
            return _draw_some(ascii_lowercase, length, draw).capitalize() + _draw_some(
                digits, 3, draw
            )
        case 1:
            return _draw_some(MIXED, length, draw) + ending
        case 2:
            sign = draw.choice("!#$%&*?@-_.")
            return draw.choice(WORDS).capitalize() + sign + str(draw.randint(10, 9999))
        case 3:
            return _draw_some(MIXED + "!#$%&*?", length, draw) + ending
        case 4:
            return _draw_some(ascii_lowercase, length, draw) + str(
                draw.randint(1, 9999)
            )
        case _:
            return f"{draw.choice(WORDS)}-{draw.choice(WORDS)}-{draw.randint(2, 99)}"


def _draw_key(draw: random.Random) -> str:
    letters = draw.choice((MIXED, ascii_lowercase + digits, MIXED + "_-"))
    return f"{_draw_some(letters, draw.randint(18, 62), draw)}{draw.randrange(10)}k"


def _draw_serial(draw: random.Random) -> str:
    groups = range(draw.choice((4, 5)))
    return "-".join(
        _draw_some(ascii_uppercase + digits, 4, draw) + str(draw.randrange(10))
        for _ in groups
    )


def _draw_base64(draw: random.Random) -> str:
    return _draw_some(MIXED + "+/", draw.choice((40, 44, 64, 88)), draw) + draw.choice(
        ("", "=", "==")
    )


def _draw_identifier(draw: random.Random) -> str:
    """Return a name of code with a figure in it: `Quay2Lamp`, `HarborV3`, `C4PierCrane`."""
    first, second, third = (draw.choice(WORDS).capitalize() for _ in range(3))
    number = draw.randint(2, 9)
    return draw.choice(
        (
            f"{first}{number}{second}",
            f"{first}{second}{number}",
            f"{first}V{number}",
            f"{first[0]}{number}{second}{third}",
            f"{first[:3]}{number}{second[:3]}{number}For{third}",
            f"{first[:3].upper()}{draw.randint(16, 128)}{second}",
        )
    )


FIELDS: dict[str, Callable[[random.Random], str]] = {
    "pw": _draw_password,
    "key": _draw_key,
    "serial": _draw_serial,
    "b64": _draw_base64,
    "base32": lambda draw: (
        _draw_some(ascii_uppercase + "234567", draw.choice((16, 26, 32)), draw) + "2A"
    ),
    "ver": lambda draw: (
        f"{draw.randint(0, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 9)}"
    ),
    "uuid": lambda draw: "-".join(
        _draw_some(HEX, length, draw) for length in (8, 4, 4, 4, 12)
    ),
    "num": lambda draw: str(draw.randint(1, 9999)),
    "word": lambda draw: draw.choice(WORDS),
    "file": lambda draw: (
        f"src/{draw.choice(WORDS)}{draw.randint(1, 9)}.{draw.choice(('py', 'ts', 'md', 'yml'))}"
    ),
    "ident": _draw_identifier,
    "name": lambda draw: draw.choice((*NAMES, *WORDS)).capitalize(),
    "id11": lambda draw: _draw_some(MIXED + "_-", 11, draw),
}
"""Fields of templates, and how their values are drawn."""


def make_examples(seed: int = 0) -> list[Example]:
    """Return the candidates of the lines that the templates make."""
    draw = random.Random(seed)
    with TEMPLATES.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        example
        for number, row in enumerate(rows)
        for _ in range(FILLS)
        for example in _make_line(row["kind"], row["template"], number, draw)
    ]


def _make_line(
    kind: str,
    template: str,
    number: int,
    draw: random.Random,
) -> Iterator[Example]:
    """Yield the candidates of a line that a template makes, among other lines."""
    whole = template.replace("\\n", "\n").replace("\\t", "\t")
    line, secrets = _fill(NAMED.sub(lambda _: draw.choice(NAMES), whole), draw)
    lines = list_ordinary_lines()
    before = draw.choice(("", f"{draw.choice(WORDS)}\n", "see below:\n", None, None))
    if before is None:
        before = f"{draw.choice(lines)}\n{draw.choice(lines)}\n"
    text = before + line + draw.choice(("", "\n", f"\n{draw.choice(lines)}"))
    for start, end in iter_candidates(text):
        at = start - len(before), end - len(before)
        if at[1] <= 0 or at[0] >= len(line):
            continue  # of a line around it
        yield Example(
            kind,
            text,
            start,
            end,
            any(at[0] < last and first < at[1] for first, last in secrets),
            number,
        )


def _fill(template: str, draw: random.Random) -> tuple[str, list[tuple[int, int]]]:
    pieces, secrets, at, length = list[str](), list[tuple[int, int]](), 0, 0
    for match in FIELD.finditer(template):
        value = draw_field(match[1], draw)
        pieces += (template[at : match.start()], value)
        length += match.start() - at
        if match[1].isupper():
            secrets.append((length, length + len(value)))
        length, at = length + len(value), match.end()
    return "".join((*pieces, template[at:])), secrets


def read_ordinary() -> Iterator[str]:
    """Yield texts without a secret: of the samples and the labelled sessions."""
    for path in sorted(
        [*SAMPLES.rglob("*.jsonl"), *SAMPLES.rglob("*.json"), *LABELLED.glob("*.jsonl")]
    ):
        if "injections" not in path.name:
            for line in path.read_text("utf-8").split("\n"):
                try:
                    yield from _list_texts(json.loads(line))
                except ValueError:
                    # A document of several lines, or a line that a sample has damaged.
                    yield line


@cache
def list_ordinary_lines() -> list[str]:
    """Return the short lines of the ordinary texts, to put around a line that a template makes."""
    lines = [line for text in read_ordinary() for line in text.splitlines()]
    return sorted({line for line in lines if 3 < len(line) < LONGEST_AROUND})


def _list_texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for member in value.values():
                yield from _list_texts(member)
        case list():
            for member in value:
                yield from _list_texts(member)


def fit_model(examples: Sequence[Example]) -> SecretModel:
    """Return a logistic regression fitted on the examples."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    rows = [
        sorted({hash_feature(one) for one in list_features(e.text, e.start, e.end)})
        for e in examples
    ]
    ends = np.cumsum([0, *map(len, rows)])
    matrix = csr_matrix(
        (np.ones(ends[-1]), np.concatenate(rows), ends), shape=(len(rows), BUCKETS)
    )
    fitted = LogisticRegression(C=STRENGTH, max_iter=2_000).fit(
        matrix, [e.secret for e in examples]
    )
    return SecretModel(fitted.coef_[0].tolist(), float(fitted.intercept_[0]))


def score(example: Example, model: SecretModel) -> float:
    """Return the probability that an example is a secret."""
    return model.compute_probability(example.text, example.start, example.end)


def measure(*, write: bool = False) -> Figures:
    """Return a row a kind, of a model of the others; write the model."""
    examples, fresh = make_examples(), make_examples(seed=1)
    ordinary = [
        Example("ordinary", text, start, end, False)
        for text in read_ordinary()
        for start, end in iter_candidates(text)
    ]
    rows, touched = list[Row](), Counter[str]()
    for fold in range(FOLDS):
        rows += _measure_fold(fold, examples, ordinary, fresh, touched)
    if write:
        _write_model(examples, ordinary)
    lines = sum(int(str(row["lines"])) for row in rows)
    masked = sum(float(str(row["masked"])) * int(str(row["lines"])) for row in rows)
    rows.append({"kind": "all", "lines": lines, "masked": round(masked / lines, 3)})
    notes = [
        f"without a secret, masked: {touched['none masked']:,} of {touched['none']:,} that look like one, "
        f"{touched['ordinary masked']:,} of {touched['ordinary']:,} candidates of ordinary texts"
    ]
    return Figures(rows, title="Secrets of kinds that were not learnt", notes=notes)


def leave_out(examples: Sequence[Example], fold: int) -> tuple[set[str], set[int]]:
    """Return the kinds that a fold leaves out, and the templates of lines without a secret."""
    kinds = sorted({one.kind for one in examples} - {"none"})
    templates = sorted({one.template for one in examples if one.kind == "none"})
    return {*kinds[fold::FOLDS]}, {*templates[fold::FOLDS]}


def _measure_fold(
    fold: int,
    examples: Sequence[Example],
    ordinary: Sequence[Example],
    fresh: Sequence[Example],
    touched: Counter[str],
) -> list[Row]:
    """Return rows of the kinds that are left out of a fold; count what is masked of the lines without a secret."""
    kinds, templates = leave_out(examples, fold)
    learnt = [
        one
        for one in examples
        if one.kind not in kinds and one.template not in templates
    ]
    model = fit_model(
        [*learnt, *(one for at, one in enumerate(ordinary) if at % FOLDS != fold)]
    )
    rest = [one for at, one in enumerate(ordinary) if at % FOLDS == fold]
    none = [one for one in examples if one.template in templates]
    for name, without in (("ordinary", rest), ("none", none)):
        touched[name] += len(without)
        touched[f"{name} masked"] += sum(
            score(one, model) >= CERTAIN for one in without
        )
    rows = list[Row]()
    for kind in sorted(kinds):
        sure = [score(one, model) for one in fresh if one.kind == kind and one.secret]
        rows.append({"kind": kind, "lines": len(sure)} | {"masked": _share(sure)})
    return rows


def _write_model(examples: Sequence[Example], ordinary: Sequence[Example]) -> None:
    model = fit_model([*examples, *ordinary])
    out = io.BytesIO()
    np.savez_compressed(
        out,
        weights=np.array(model.weights, dtype=np.float16),
        bias=np.float32(model.bias),
    )
    (ROOT / "slowwave" / "text" / "secrets" / MODEL_FILE).write_bytes(out.getvalue())


def _share(sure: Sequence[float]) -> float:
    return round(sum(p >= CERTAIN for p in sure) / max(1, len(sure)), 3)


if __name__ == "__main__":
    run(measure)
