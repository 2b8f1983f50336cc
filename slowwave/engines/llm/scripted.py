"""A fake LLM for tests and for a look: it answers from a function or a list, without a model or a network.

    ScriptedLLM(lambda request: {"claims": []})          # this JSON for every request
    ScriptedLLM(["first answer", "second answer"])       # in the order of the requests
    ScriptedLLM()                                        # the emptiest value each schema allows

The function's result is dumped as JSON unless it is text. A `Completion` is yielded as it is, so every failure of an
engine can be scripted. A tuple of completions makes duplicates; an empty one makes a gap.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    JsonSchema,
    Request,
    Sampling,
    build_json_schema,
    index_by_id,
)

Script = Callable[[Request], Any]


class ScriptedLLM(LLM):
    """Answers requests from `script`; `asked` has every request."""

    def __init__(
        self,
        script: Script | Sequence[Any] | None = None,
        *,
        model: str = "scripted",
        context_window: int = 32_768,
    ) -> None:
        self.name = "scripted"
        self.model = model
        self.sampling = Sampling()
        self.gpus = 0
        self._context_window = context_window
        self.asked: list[Request] = []
        if script is None or callable(script):
            self.script: Script = script or make_minimal_answer
        else:
            answers = iter(script)
            self.script = lambda request: next(answers)

    @property
    def context_window(self) -> int:
        """The given context window, in tokens."""
        return self._context_window

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield the script's answers to each request, in order."""
        index_by_id(requests)
        for request in requests:
            self.asked.append(request)
            answer = self.script(request)
            if isinstance(answer, (Completion, tuple)):
                yield from (answer,) if isinstance(answer, Completion) else answer
                continue
            text = answer if isinstance(answer, str) else orjson.dumps(answer).decode()
            prompt = sum(
                self.count_tokens([message["content"] for message in request.messages])
            )
            (tokens,) = self.count_tokens([text])
            yield Completion(
                request.id,
                text,
                prompt_tokens=prompt,
                completion_tokens=tokens,
                engine=self.name,
                model=self.model,
            )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return one token for each four bytes, rounded up."""
        # About four bytes a token.
        return [-(-len(text.encode("utf-8", "replace")) // 4) for text in texts]


def make_minimal_answer(request: Request) -> Any:
    """Return the emptiest value the request's schema allows; without a schema, a word."""
    if request.answer is None:
        return "nothing"
    return _make_minimal_value(build_json_schema(request.answer, lengths=True))


def _make_minimal_value(schema: JsonSchema) -> Any:
    """Return the emptiest value of a schema: the fewest items, the first choice, the smallest number, the shortest
    text.
    """
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if schema["type"] == "object":
        return {
            name: _make_minimal_value(schema["properties"][name])
            for name in schema["required"]
        }
    if schema["type"] == "array":
        return [
            _make_minimal_value(schema["items"])
            for _ in range(schema.get("minItems", 0))
        ]
    if schema["type"] == "string":
        return "-" * schema.get("minLength", 0)
    return False if schema["type"] == "boolean" else schema.get("minimum", 0)
