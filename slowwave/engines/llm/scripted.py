"""The fake LLM that ships: answers from a function, or from a list. No model, no network; for tests and for a look.

    ScriptedLLM(lambda request: {"claims": []})          # JSON for whatever is asked
    ScriptedLLM(["first answer", "second answer"])       # in the order of asking
    ScriptedLLM()                                        # the emptiest value each schema allows

What the function returns is dumped as JSON unless it is text; a `Completion` goes out as it is, so every trouble an
engine may have can be scripted; a tuple of them, or an empty one, makes duplicates and gaps.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from slowwave.engines.llm.protocol import Completion, JsonSchema, Message, Request, Sampling, index_by_id

BYTES_A_TOKEN = 4
Script = Callable[[Request], Any]


class ScriptedLLM:
    """Answers from `script`; `asked` keeps every request it was given."""

    def __init__(
        self, script: Script | Sequence[Any] | None = None, *, model: str = "scripted", context_window: int = 32_768
    ) -> None:
        self.name = "scripted"
        self.model = model
        self.sampling = Sampling()
        self.context_window = context_window
        self.asked: list[Request] = []
        self.script = _make_script(script)

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield what the script says to each request, in order."""
        index_by_id(requests)
        for request in requests:
            self.asked.append(request)
            yield from self._build_completions(request)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return a token for each four bytes, at least one where there is text."""
        return [-(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN) for text in texts]

    def free_gpu(self) -> None:
        """Do nothing: no GPU is held by this process."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def _build_completions(self, request: Request) -> Iterator[Completion]:
        answer = self.script(request)
        if isinstance(answer, Completion):
            yield answer
        elif isinstance(answer, tuple):
            yield from answer
        else:
            yield self._build_completion(request, answer if isinstance(answer, str) else orjson.dumps(answer).decode())

    def _build_completion(self, request: Request, text: str) -> Completion:
        prompt, answer = sum(self.count_tokens([m["content"] for m in request.messages])), self.count_tokens([text])[0]
        return Completion(
            request.id, text, prompt_tokens=prompt, completion_tokens=answer, engine=self.name, model=self.model
        )


def make_user_prompt(text: str, *, system: str | None = None) -> tuple[Message, ...]:
    """Return a prompt of one user turn, after an optional system one."""
    opening: tuple[Message, ...] = ({"role": "system", "content": system},) if system else ()
    return (*opening, {"role": "user", "content": text})


def make_minimal_answer(request: Request) -> Any:
    """Return the emptiest value the request's schema allows; without a schema, a word."""
    return "nothing" if request.schema is None else _make_minimal_value(request.schema)


def _make_minimal_value(schema: JsonSchema) -> Any:
    """Return a value of required fields only, no items, the first choice, zero, and text as short as may be."""
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _make_minimal_value(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [_make_minimal_value(schema["items"]) for _ in range(schema.get("minItems", 0))]
    if kind == "string":
        return "-" * schema.get("minLength", 0)
    return {"boolean": False, "number": schema.get("minimum", 0), "integer": schema.get("minimum", 0)}.get(str(kind))


def _make_script(script: Script | Sequence[Any] | None) -> Script:
    """Return a script from a function, from answers in the order of asking, or the emptiest one."""
    if script is None:
        return make_minimal_answer
    if callable(script):
        return script
    rest = iter(script)
    return lambda request: next(rest)
