"""What is wrong with an answer, if anything: pure checks, the same for every engine.

`check_completion` turns what an engine generated into a completion with a value or an error. The order matters: the
first trouble found is the one that is reported.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from slowwave.engines.llm.protocol import Completion, ErrorKind, JsonSchema, Request, add_flag

RUNAWAY = 4
"""An answer of more than this many times its token budget comes from a server that ignores budgets."""
BYTES_A_TOKEN = 8
"""More bytes than this a token are not words: used where a server counts no tokens."""
LOOP_TAIL, LOOP_PERIOD = 400, 80
"""A text whose last 400 characters repeat with a period of up to 80 is in a loop."""
SCRIPT_LETTERS = 20
"""Letters from which a text's script can be told."""

THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
FENCE = re.compile(r"```(?:json)?[^\S\n]*+\n(.*)```\Z", re.DOTALL)
BLANKS = re.compile(r"\s{100,}")
REFUSAL = re.compile(
    r"""\A\W*(?:
        (?:i['’]m|i\ am)\ (?:very\ |really\ |so\ )?(?:sorry|unable|not\ able)
      | sorry,?\ (?:but\ )?i
      | i\ (?:can['’]?t|cannot|can\ not|won['’]t)\ (?:assist|help|comply|provide|fulfill?|do\ that|answer|process)
      | i\ (?:must|have\ to)\ (?:decline|refuse)
      | as\ an\ ai\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


class NotJson(ValueError):
    """A text that is no JSON value; `cut` when it only ends too early."""

    def __init__(self, why: str, *, cut: bool) -> None:
        self.cut = cut
        super().__init__(why)


def check_completion(request: Request, completion: Completion) -> Completion:
    """Return the completion with its `value`, or with the `error` found in it.

    A completion with an error stays as it is.
    """
    if completion.error:
        return completion
    text = THINKING.sub("", completion.text)
    trouble = _find_generation_error(request, completion, text)
    if trouble:
        return _set_error(completion, *trouble)
    return _flag_language(request, _parse_answer(request, completion, text))


def _find_generation_error(request: Request, completion: Completion, text: str) -> tuple[ErrorKind, str] | None:
    """Return what can be told without reading the answer."""
    if completion.finish_reason == "error":
        return "missing", "the engine gave this request up"
    if completion.finish_reason == "content_filter":
        return "refusal", f"the server's filter stopped the answer: {text[:200]!r}"
    if completion.finish_reason == "repetition" or (completion.finish_reason == "length" and is_looping(text)):
        return "runaway", f"the answer went in circles: … {text[-80:]!r}"
    if not text.strip():
        return (
            ("cut", "the budget ended before the answer began")
            if completion.finish_reason == "length"
            else (
                "empty",
                "the answer has no text",
            )
        )
    if is_overlong(request, completion):
        return "runaway", f"the answer has {len(text):,} characters, the budget is {request.max_tokens} tokens"
    return None


def _parse_answer(request: Request, completion: Completion, text: str) -> Completion:
    """Return the completion with the value its text holds, or with why it holds none."""
    if request.schema is None:
        return _parse_plain_answer(completion, text.strip())
    try:
        value = parse_json(text)
    except NotJson as error:
        return _set_error(completion, *_explain_bad_json(completion, text, error))
    misfit = find_schema_error(request.schema, value)
    if misfit:
        return _set_error(completion, "schema", misfit)
    if is_refusal(value):
        return _set_error(completion, "refusal", f"the model declined: {text[:200]!r}")
    return replace(completion, value=value)


def _parse_plain_answer(completion: Completion, text: str) -> Completion:
    """Return an answer in plain words."""
    if completion.finish_reason == "length":
        return _set_error(completion, "cut", f"the answer was cut at {completion.completion_tokens} tokens")
    if REFUSAL.match(text) and len(text) < 600:
        return _set_error(completion, "refusal", f"the model declined: {text[:200]!r}")
    if is_looping(text):
        return _set_error(completion, "runaway", f"the answer went in circles: … {text[-80:]!r}")
    return replace(completion, value=text)


def _explain_bad_json(completion: Completion, text: str, error: NotJson) -> tuple[ErrorKind, str]:
    """Return why a text is not the JSON that was asked for."""
    if REFUSAL.match(text.strip()):
        return "refusal", f"the model declined: {text[:200]!r}"
    if is_looping(text) or BLANKS.search(text):
        return "runaway", f"the answer went in circles: … {text[-80:]!r}"
    if error.cut or completion.finish_reason == "length":
        return "cut", f"JSON cut after {len(text):,} characters ({completion.completion_tokens} tokens): {error}"
    return "not_json", f"{error}: {text[:200]!r}"


def parse_json(text: str) -> Any:
    """Return the JSON value a text holds, with or without a code fence around it.

    Raises:
        NotJson: there is none.
    """
    fenced = FENCE.match(text.strip())
    inner = (fenced.group(1) if fenced else text).strip()
    try:
        return orjson.loads(inner)
    except orjson.JSONDecodeError as error:
        ends = error.pos >= len(inner) or "end of data" in error.msg or "EOF" in error.msg
        raise NotJson(error.msg, cut=ends and inner[:1] in "{[") from None


def find_schema_error(schema: JsonSchema, value: Any) -> str | None:
    """Return where `value` differs from `schema` and how; None where it fits."""
    worst = best_match(_build_validator(orjson.dumps(schema)).iter_errors(value))
    return None if worst is None else f"{worst.json_path}: {worst.message[:300]}"


@lru_cache(maxsize=64)
def _build_validator(schema: bytes) -> Any:
    """Return a validator, made once a schema."""
    return Draft202012Validator(orjson.loads(schema))


def is_overlong(request: Request, completion: Completion) -> bool:
    """Return whether an answer is far beyond its budget, by the engine's count or by its length.

    One of several attempts was judged by its own budget when it came; later it bears the tokens of all.
    """
    if "retried" in completion.flags:
        return False
    budget = request.max_tokens * RUNAWAY
    return completion.completion_tokens > budget or len(completion.text) > budget * BYTES_A_TOKEN


def is_looping(text: str) -> bool:
    """Return whether a text ends in one short phrase, or blanks, over and over."""
    tail = text[-LOOP_TAIL:]
    if len(tail) < LOOP_TAIL:
        return False
    return any(tail[period:] == tail[:-period] for period in range(1, LOOP_PERIOD + 1))


def is_refusal(value: Any) -> bool:
    """Return whether everything said in a JSON value is a refusal."""
    said = [text for text in extract_strings(value) if len(text.split()) > 3]
    return bool(said) and all(REFUSAL.match(text) for text in said)


def extract_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from extract_strings(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from extract_strings(inner)


def _set_error(completion: Completion, error: ErrorKind, reason: str) -> Completion:
    return replace(completion, value=None, error=error, reason=reason)


def _flag_language(request: Request, completion: Completion) -> Completion:
    """Return the completion, flagged `language` when it is written in a script its prompt's last turn is not."""
    if completion.error or not request.messages:
        return completion
    answer = detect_script(" ".join(extract_strings(completion.value)))
    asked = detect_script(request.messages[-1]["content"][-20_000:])
    return add_flag(completion, "language") if answer and asked and answer != asked else completion


def detect_script(text: str) -> str | None:
    """Return the script most letters of a text belong to (`LATIN`, `CYRILLIC`, `CJK`, …).

    None when they are too few.
    """
    letters = Counter(c for c in text if c.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        scripts[unicodedata.name(letter, "?").split(" ")[0].split("-")[0]] += count
    if letters.total() < SCRIPT_LETTERS:
        return None
    return scripts.most_common(1)[0][0]
