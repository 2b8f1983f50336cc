"""Validation of answers: every completion is checked. A truncated, looping or missing answer is requested once more.

`check_completion` turns generated text into a completion with a value or an error. `CheckedLLM` checks all completions
of an engine and yields exactly one a request: answers to unknown ids and second answers to an id are dropped.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from slowwave.engines.llm.protocol import (
    AnswerModel,
    Completion,
    EngineUnavailable,
    ErrorKind,
    Layer,
    Request,
    count_prompt_tokens,
    index_by_id,
    make_failure,
)

A = TypeVar("A", bound=AnswerModel)
RUNAWAY = 4
"""If an answer is longer than this many times its token budget, the server ignores budgets."""
BYTES_A_TOKEN = 8
"""More bytes a token than words have: used if a server reports no tokens."""
LOOP_TAIL = 400
LOOP_PERIOD = 400
LOOP_TIMES = 3
"""A text is in a loop if its last 400 characters or more repeat, three times or more, with a period of up to 400."""
LOOP_PENALTY = 0.5
"""Frequency penalty (as OpenAI's API defines it) of the second attempt at an answer that went in circles."""
LONGEST_REFUSAL = 600
"""A text of at least this many characters is an answer, even if it begins like a refusal."""
Finding = tuple[ErrorKind, str]
"""The error of an answer, and its reason in words."""

THINKING = re.compile(r"\A.*(?<!`)</think>|\A\s*<think>.*", re.DOTALL)
"""The thoughts in an answer: all text up to the last closing tag, or the whole text if it opens with a tag that it does
not close. A closing tag after a backtick belongs to the answer.
"""
FENCE = re.compile(r"```(?:json)?[^\S\n]*+\n(.*)```\Z", re.DOTALL)
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


class CheckedLLM(Layer):
    """Checks the completions of `inner`. Truncated, missing and looping answers are requested once more at the end."""

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request: its value, or the error found in it.

        Raises:
            EngineUnavailable: the engine is gone. Truncated answers that wait for a second attempt are yielded before.
        """
        answers: dict[str, Completion] = {}
        try:
            for completion in self._complete_once(requests):
                if completion.error in ("cut", "missing") or is_in_circles(completion):
                    answers[completion.id] = completion
                else:
                    yield completion
            again: list[Request] = []
            waiting = [request for request in requests if request.id in answers]
            for request, used in zip(
                waiting, count_prompt_tokens(self, waiting), strict=True
            ):
                second = _make_second_request(
                    request, answers[request.id], self.context_window - used
                )
                if second is None:
                    yield answers.pop(request.id)
                else:
                    again.append(second)
            for completion in self._complete_once(again):
                yield _merge_attempts(answers.pop(completion.id), completion)
        except EngineUnavailable:
            # truncated answers are paid for, and useful up to their end
            yield from (c for c in answers.values() if c.error != "missing")
            raise

    def _complete_once(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield exactly one checked completion a request."""
        waiting = index_by_id(requests)
        for completion in self.inner.complete(requests) if requests else ():
            request = waiting.pop(completion.id, None)
            if request is not None:
                yield check_completion(request, completion)
        for request in waiting.values():
            yield make_failure(
                request=request,
                error="missing",
                reason="the engine gave no answer to this request",
                llm=self,
            )


def _make_second_request(
    request: Request, first: Completion, room: int
) -> Request | None:
    """Return the request for the second attempt; None if it would equal the first.

    After a truncated answer it has a larger budget, if the context window has `room` (tokens) for one. After a looping
    answer it has a penalty for repeated tokens.
    """
    if first.error == "missing":
        return request
    if first.error == "runaway":
        return replace(request, frequency_penalty=LOOP_PENALTY)
    budget = min(2 * request.max_tokens, room)
    return replace(request, max_tokens=budget) if budget > request.max_tokens else None


def _merge_attempts(first: Completion, second: Completion) -> Completion:
    """Return the second attempt, or the first if only that has text, with the tokens of both."""
    chosen = first if first.text and not second.text else second
    return replace(
        chosen,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        prefix_tokens=first.prefix_tokens + second.prefix_tokens,
        flags=(*chosen.flags, "retried"),
    )


def check_completion(request: Request, completion: Completion) -> Completion:
    """Return the completion with its `value`, or with the first `error` found; a completion with an error as it is."""
    if completion.error:
        return completion
    text = strip_thinking(completion.text, is_json=request.answer is not None)
    error = _find_generation_error(request, completion, text)
    shortened = False
    if error is None:
        value, shortened, error = _read_value(request.answer, completion, text)
    if error is not None:
        return replace(completion, value=None, error=error[0], reason=error[1])
    new_flags = (
        ("shortened",) if shortened and "shortened" not in completion.flags else ()
    )
    return replace(completion, value=value, flags=(*completion.flags, *new_flags))


def strip_thinking(text: str, *, is_json: bool) -> str:
    """Return an answer without the model's thoughts.

    Valid JSON is returned as it is: a quote in it may have the tag.
    """
    if "think>" not in text:
        return text
    if is_json:
        with suppress(ValueError):
            from_json(text)
            return text
    return THINKING.sub("", text, count=1)


def parse_answer(answer: type[A], text: str) -> tuple[A, bool]:
    """Parse a JSON text as an answer, and return it with True if strings were cut to their field's maximal length.

    Servers don't get the lengths of strings (`protocol.LENGTHS`). So a string is cut here, where constrained decoding
    would have ended it.

    Raises:
        ValidationError: the text is not a valid answer for another reason than the length of a string.
    """
    try:
        return answer.model_validate_json(text), False
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        if any(misfit["type"] != "string_too_long" for misfit in found):
            raise
    value = from_json(text)
    for misfit in found:
        *path, last = misfit["loc"]
        holder = value
        for step in path:
            holder = holder[step]
        holder[last] = holder[last][: misfit["ctx"]["max_length"]]
    return answer.model_validate_json(to_json(value)), True


def _find_generation_error(
    request: Request, completion: Completion, text: str
) -> Finding | None:
    """Return the error of a completion before it is parsed; None if there is none."""
    cut = completion.finish_reason == "length"
    if completion.finish_reason == "error":
        return "missing", "the engine gave this request up"
    if completion.finish_reason == "content_filter":
        return "refusal", f"the server's filter stopped the answer: {text[:200]!r}"
    if completion.finish_reason == "repetition" or (cut and is_looping(text)):
        return "runaway", f"the answer went in circles: … {text[-80:]!r}"
    if not text.strip():
        return (
            ("cut", "the budget ended before the answer began")
            if cut
            else ("empty", "the answer has no text")
        )
    budget = request.max_tokens * RUNAWAY
    # A second attempt was checked with its own budget when it came; in the cache it has the tokens of both.
    overlong = (
        completion.completion_tokens > budget or len(text) > budget * BYTES_A_TOKEN
    )
    if overlong and "retried" not in completion.flags:
        return (
            "runaway",
            f"the answer has {len(text):,} characters, the budget is {request.max_tokens} tokens",
        )
    return None


def _read_value(
    answer: type[AnswerModel] | None, completion: Completion, text: str
) -> tuple[Any, bool, Finding | None]:
    """Return a parsed answer, whether texts in it were shortened, and the error in it, if any."""
    cut = completion.finish_reason == "length"
    shortened = False
    if answer is None:
        value: Any = text.strip()
        strings = [value]
        if cut:
            return (
                None,
                False,
                ("cut", f"the answer was cut at {completion.completion_tokens} tokens"),
            )
        if is_looping(text):
            return (
                None,
                False,
                ("runaway", f"the answer went in circles: … {text[-80:]!r}"),
            )
    else:
        fenced = FENCE.match(text.strip())
        try:
            value, shortened = parse_answer(
                answer, (fenced.group(1) if fenced else text).strip()
            )
        except ValidationError as error:
            return None, False, _explain_misfit(error, completion, text)
        strings = [
            string
            for string in _extract_strings(value.model_dump())
            if len(string.split()) > 3
        ]
    if strings and all(
        REFUSAL.match(string) and len(string) < LONGEST_REFUSAL for string in strings
    ):
        return None, False, ("refusal", f"the model declined: {text[:200]!r}")
    return value, shortened, None


def _explain_misfit(
    error: ValidationError, completion: Completion, text: str
) -> Finding:
    """Return why a text is not a valid answer."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[
        0
    ]
    if first["type"] != "json_invalid":
        return "schema", f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if REFUSAL.match(text.strip()):
        return "refusal", f"the model declined: {text[:200]!r}"
    if is_looping(text):
        return "runaway", f"the answer went in circles: … {text[-80:]!r}"
    if completion.finish_reason == "length" or "EOF while parsing" in first["msg"]:
        return (
            "cut",
            f"JSON cut after {len(text):,} characters ({completion.completion_tokens} tokens)",
        )
    return "not_json", f"{first['msg']}: {text[:200]!r}"


def is_in_circles(completion: Completion) -> bool:
    """Return True if a completion is a runaway that ends by repeating one phrase, or blanks."""
    return completion.error == "runaway" and (
        completion.finish_reason == "repetition" or is_looping(completion.text)
    )


def is_looping(text: str) -> bool:
    """Return True if a text ends by repeating one phrase, or blanks (LOOP_TAIL, LOOP_PERIOD, LOOP_TIMES)."""
    for period in range(1, LOOP_PERIOD + 1):
        tail = text[-max(LOOP_TAIL, LOOP_TIMES * period) :]
        if (
            len(tail) >= max(LOOP_TAIL, LOOP_TIMES * period)
            and tail[period:] == tail[:-period]
        ):
            return True
    return False


def _extract_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _extract_strings(inner)
