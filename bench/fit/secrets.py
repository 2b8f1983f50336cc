"""Learns which words are secrets from generated lines, and how well that holds for kinds of lines not seen.

    python -m bench.fit.secrets [--write] [--json]

Lines are made of `data/labelled/secrets.tsv`: a kind and a template, whose fields in capitals become secrets and the
others what only looks like one, drawn from a seed. The lines of the kind `none`, and all of `data/samples` and the
labelled sessions, have no secret. Each kind is judged by a model of the other kinds. Columns: *lines*, and the share
*masked* from `CERTAIN` and from `PERHAPS` on. `--write` writes the model that ships. Time: a minute.
"""

import csv
import io
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Any, NamedTuple

import numpy as np

from bench.harness import LABELLED, ROOT, Figures, Row, run
from slowwave.text.redact import CERTAIN, PERHAPS
from slowwave.text.secret_score import BUCKETS, MODEL_FILE, hash_feature, iter_candidates, list_features

TEMPLATES = LABELLED / "secrets.tsv"
FILLS, FOLDS = 12, 5
"""Lines made of a template; parts that the kinds are divided into."""
STRENGTH = 1.0
"""Inverse of the penalty on weights."""
HINTS = 160
"""Words that speak for a secret and are looked for in a text first."""
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


def draw_field(name: str, draw: random.Random) -> str:
    """Return a value for a field of a template."""
    mixed = ascii_letters + digits
    some = lambda letters, n: "".join(draw.choice(letters) for _ in range(n))  # noqa: E731
    word, name = draw.choice(WORDS), name.lower()
    match name:
        case "pw":
            forms = (
                lambda: some(ascii_uppercase, 1) + some(ascii_lowercase, draw.randint(5, 10)) + some(digits, 3),
                lambda: some(mixed, draw.randint(8, 16)) + some(digits, 1) + some(ascii_lowercase, 1),
                lambda: word.capitalize() + draw.choice("!#$%&*?@-_.") + some(digits, draw.randint(2, 4)),
                lambda: some(mixed + "!#$%&*?", draw.randint(9, 18)) + some(digits, 1) + some(ascii_lowercase, 1),
                lambda: some(ascii_lowercase, draw.randint(6, 10)) + some(digits, draw.randint(1, 4)),
                lambda: f"{word}-{draw.choice(WORDS)}-{draw.randint(2, 99)}",
            )
            return draw.choice(forms)()
        case "key":
            letters = draw.choice((mixed, ascii_lowercase + digits, mixed + "_-"))
            return f"{some(letters, draw.randint(18, 62))}{some(digits, 1)}{some(ascii_lowercase, 1)}"
        case "base32":
            return some(ascii_uppercase + "234567", draw.choice((16, 26, 32))) + "2A"
        case "serial":
            return "-".join(some(ascii_uppercase + digits, 4) + some(digits, 1) for _ in range(draw.choice((4, 5))))
        case "b64":
            return some(mixed + "+/", draw.choice((40, 44, 64, 88))) + draw.choice(("", "=", "=="))
        case "ver":
            return f"{draw.randint(0, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 9)}"
        case "uuid":
            return "-".join(some("0123456789abcdef", n) for n in (8, 4, 4, 4, 12))
        case "num":
            return str(draw.randint(1, 9999))
        case "word":
            return word
        case "file":
            return f"src/{word}{draw.randint(1, 9)}.{draw.choice(('py', 'ts', 'md', 'yml'))}"
        case "id11":
            return some(mixed + "_-", 11)
        case _ if name.startswith("hex"):
            return some("0123456789abcdef", int(name[3:] or draw.choice((32, 40, 64))))
        case _:
            return f"{{{name}}}"


def make_examples(seed: int = 0) -> list[Example]:
    """Return the candidates of the lines that the templates make."""
    draw, examples = random.Random(seed), list[Example]()
    with TEMPLATES.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        template = row["template"].replace("\\n", "\n").replace("\\t", "\t")
        for _ in range(FILLS):
            text, secrets = _fill(NAMED.sub(lambda _: draw.choice(NAMES), template), draw)
            before, after = (
                draw.choice(("", f"{draw.choice(WORDS)}\n", "# run2\n", "see below:\n")),
                draw.choice(("", "\n", "\nok")),
            )
            text, shift = f"{before}{text}{after}", len(before)
            spans = {(start + shift, end + shift) for start, end in secrets}
            for start, end in iter_candidates(text):
                inside = any(start < last and first < end for first, last in spans)
                examples.append(Example(row["kind"], text, start, end, inside))
    return examples


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
    for path in sorted([*SAMPLES.rglob("*.jsonl"), *SAMPLES.rglob("*.json"), *LABELLED.glob("*.jsonl")]):
        if "injections" not in path.name:
            for line in path.read_text("utf-8").split("\n"):
                try:
                    yield from _list_texts(json.loads(line))
                except ValueError:  # a document of several lines, or a line that a sample has damaged
                    yield line


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


def fit_weights(examples: Sequence[Example]) -> tuple[Any, float]:
    """Return weights and bias of a logistic regression on the examples."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    rows = [sorted({hash_feature(one) for one in list_features(e.text, e.start, e.end)}) for e in examples]
    ends = np.cumsum([0, *map(len, rows)])
    matrix = csr_matrix((np.ones(ends[-1]), np.concatenate(rows), ends), shape=(len(rows), BUCKETS))
    fitted = LogisticRegression(C=STRENGTH, max_iter=2_000).fit(matrix, [e.secret for e in examples])
    return fitted.coef_[0], float(fitted.intercept_[0])


def score(example: Example, weights: Any, bias: float) -> float:
    """Return the probability of an example."""
    logit = bias + sum(weights[hash_feature(one)] for one in list_features(example.text, example.start, example.end))
    return 1 / (1 + math.exp(-logit))


def choose_hints(examples: Iterable[Example], weights: Any) -> list[str]:
    """Return the words of the context that speak most for a secret, by weight and by how often they came."""
    seen = defaultdict[str, float](float)
    counts = Counter[str]()
    for example in examples:
        if example.secret:
            for feature in list_features(example.text, example.start, example.end):
                place, _, name = feature.rpartition(" ")
                if place.startswith(("left", "any", "above", "right")):
                    word = name.rstrip("~")
                    counts[word] += 1
                    seen[word] = max(seen[word], float(weights[hash_feature(feature)]))
    ranked = sorted((word for word in seen if counts[word] >= FILLS / 2), key=lambda word: -seen[word])
    named = {name[:length] for name in (*NAMES, *WORDS) for length in (4, 7)}
    long = (word for word in ranked if word not in named and (len(word) > 2 or not word.isascii()))
    return [word for word in long if seen[word] > 0.3][:HINTS]


def measure(*, write: bool = False) -> Figures:
    """Return a row a kind, of a model of the others; write the model."""
    examples = make_examples()
    ordinary = [
        Example("ordinary", text, start, end, False) for text in read_ordinary() for start, end in iter_candidates(text)
    ]
    kinds = sorted({e.kind for e in examples} - {"none"})
    templates = sorted({e.text for e in examples if e.kind == "none"})
    rows, fresh = list[Row](), make_examples(seed=1)
    touched = Counter[str]()
    for fold in range(FOLDS):
        left_out = set(kinds[fold::FOLDS])
        own_lines = set(templates[fold::FOLDS])
        learn = [e for e in examples if e.kind not in left_out and e.text not in own_lines]
        part = [e for at, e in enumerate(ordinary) if at % FOLDS != fold]
        weights, bias = fit_weights([*learn, *part])
        for kind in sorted(left_out):
            sure = [score(e, weights, bias) for e in fresh if e.kind == kind and e.secret]
            rows.append({"kind": kind, "lines": len(sure)} | _share(sure))
        rest = [score(e, weights, bias) for at, e in enumerate(ordinary) if at % FOLDS == fold]
        none = [score(e, weights, bias) for e in examples if e.kind == "none" and e.text in own_lines]
        touched.update({"ordinary": len(rest), "none": len(none)})
        touched.update(
            {"ordinary masked": sum(p >= PERHAPS for p in rest), "none masked": sum(p >= PERHAPS for p in none)}
        )
    if write:
        weights, bias = fit_weights([*examples, *ordinary])
        hints = choose_hints(examples, weights)
        out = io.BytesIO()
        np.savez_compressed(
            out, weights=weights.astype(np.float16), bias=np.float32(bias), hints=np.array(" ".join(hints))
        )
        (ROOT / "slowwave" / "text" / MODEL_FILE).write_bytes(out.getvalue())
    lines = sum(int(row["lines"]) for row in rows)  # type: ignore[arg-type]
    total = {
        name: round(sum(float(row[name]) * int(row["lines"]) for row in rows) / lines, 3)
        for name in ("masked", "perhaps")
    }  # type: ignore[arg-type]
    rows.append({"kind": "all", "lines": lines} | total)
    notes = [
        f"without a secret, masked: {touched['none masked']:,} of {touched['none']:,} that look like one, "
        f"{touched['ordinary masked']:,} of {touched['ordinary']:,} candidates of ordinary texts"
    ]
    return Figures(rows, title="Secrets of kinds that were not learnt", notes=notes)


def _share(sure: Sequence[float]) -> dict[str, float]:
    return {
        "masked": round(sum(p >= CERTAIN for p in sure) / max(1, len(sure)), 3),
        "perhaps": round(sum(p >= PERHAPS for p in sure) / max(1, len(sure)), 3),
    }


if __name__ == "__main__":
    run(measure)
