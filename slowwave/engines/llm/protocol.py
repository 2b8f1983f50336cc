"""The LLM protocol: requests with ids in, one completion for each id out, as soon as it is available.

Every engine is an `LLM`, and so is every layer around one: the checks (`checks.py`), the completions cache
(`cache.py`), the token budget (`budget.py`) and the fallback chain (`select.py`). A step sees one object:

    for completion in llm.complete(requests):   # any order, exactly one a request
        if completion.ok: use(completion.id, completion.value)
        else: quarantine(completion.id, completion.error, completion.reason)

A request that fails becomes a completion with an error, not an exception. `EngineUnavailable` means that the engine
can't answer any request. Answers are matched by id, never by text: equal prompts are common.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, JsonValue

from slowwave.schemas.errors import EngineError
from slowwave.schemas.settings import LLMSettings

Role = Literal["system", "user", "assistant"]
JsonSchema = Mapping[str, Any]
"""A schema for constrained decoding: no references, every field required, `maxItems` set, only `KEYWORDS`."""

KEYWORDS = (
    *(
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
    ),
    *("minimum", "maximum", "enum", "const", "anyOf"),
)
"""The keywords that xgrammar 0.2.8 and llguidance 1.7.6 both enforce as JSON Schema defines them. Pydantic checks the
others of an answer's form afterwards."""
LENGTHS = ("minLength", "maxLength")
"""Keywords that llguidance enforces. With them, xgrammar 0.2.8 forbids escapes in a string (quotation marks,
backslashes, new lines) and allows raw control characters, which JSON forbids."""
NON_EMPTY: dict[str, JsonValue] = {"minLength": 1}
"""`json_schema_extra` of a text that constrained decoding must not leave empty. An empty text from a server is valid:
the reader of the answer decides."""

DEFAULT_WINDOW = 8_192
"""Context window if neither a setting nor a server names one: prompts with default settings need up to 6,000."""

FinishReason = Literal["stop", "length", "repetition", "content_filter", "error"]

ErrorKind = Literal[
    "too_long",  # prompt and budget don't fit the context window; nothing was sent
    "cut",  # the answer reached its budget, the retry's too
    "empty",  # an answer without text
    "not_json",  # an answer that should be JSON and is not
    "schema",  # JSON of another shape than asked for
    # Many times longer than the budget, or one phrase or blanks over and over.
    "runaway",
    "refusal",  # the model declined
    "poison",  # this prompt alone kills the engine
    "rejected",  # the server refuses this request (4xx)
    "missing",  # the engine gave no answer to this id
    "unavailable",  # no server, or no engine, answered within the retries
    "budget",  # the night's token budget was spent before this request's turn
]

LASTING: frozenset[ErrorKind] = frozenset(
    {"too_long", "cut", "empty", "not_json", "schema", "runaway", "refusal", "poison"}
)
"""Errors that the same request to the same model would get again; after others it is sent again."""

KEPT: frozenset[ErrorKind] = LASTING - {"too_long"}
"""Errors that the completions cache stores; `too_long` depends on the server's settings, and checking it is free."""


class EngineUnavailable(EngineError):
    """The engine named `engine` can't answer any request; `why` says what to install, start or set."""

    def __init__(self, engine: str, why: str) -> None:
        self.engine = engine
        self.why = why
        super().__init__(f"{engine} is unavailable: {why}")

    def __reduce__(self) -> tuple[type["EngineUnavailable"], tuple[str, str]]:
        """Pickle the error: an engine can run in another process."""
        return type(self), (self.engine, self.why)


class ModelNotServed(EngineUnavailable):
    """The engine has no model of that name: the name in the settings is wrong, so a later night fails too."""

    exit_status = 3


class ChatMessage(TypedDict):
    """One turn of a prompt. Constant text first and the transcript last: equal beginnings are computed once."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; part of every answer's identity. The default is greedy."""

    temperature: float = 0.0
    seed: int | None = 0
    repetition_penalty: float = 1.0


class AnswerModel(BaseModel):
    """Base of the JSON answers of a model: every field is required, others are forbidden, types are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. `id` is unique within a call; `answer` is the form of the answer, None asks for plain text."""

    id: str
    messages: tuple[ChatMessage, ...]
    answer: type[AnswerModel] | None = None
    max_tokens: int = 1_024
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit for each occurrence of the token in the answer: for the second attempt after a
    looping answer."""

    @property
    def schema(self) -> JsonSchema | None:
        """The schema of the answer for constrained decoding by any backend."""
        return None if self.answer is None else build_json_schema(self.answer)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to the request of that id: `value` (of the request's `answer`, or else the text) or `error`."""

    id: str
    text: str = ""
    value: Any = None
    error: ErrorKind | None = None
    reason: str = ""
    """The error in words."""
    finish_reason: FinishReason = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefix_tokens: int = 0
    """Prompt tokens the engine did not compute again (prefix cache)."""
    cached: bool = False
    """True if the answer comes from the completions cache, without cost."""
    engine: str = ""
    model: str = ""
    flags: tuple[str, ...] = field(default=())
    """`retried`: a second attempt, with the tokens of both. `fallback`: answered by a later engine. `shortened`: a text
    was cut to the maximal length of its field."""

    @property
    def ok(self) -> bool:
        """True if the answer passed its checks."""
        return self.error is None


@lru_cache(maxsize=256)
def build_json_schema(answer: type[BaseModel], *, lengths: bool = False) -> JsonSchema:
    """Return a model's JSON Schema for constrained decoding: references resolved, other keywords left out.

    `lengths` keeps the limits of strings, for a backend that enforces them as JSON Schema defines them.
    """
    schema = answer.model_json_schema()
    definitions = schema.get("$defs", {})
    kept = frozenset(KEYWORDS + LENGTHS if lengths else KEYWORDS)

    def resolve(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolve(definitions[part["$ref"].rpartition("/")[2]])
        resolved = {name: inner for name, inner in part.items() if name in kept}
        for name in resolved.keys() & {"items", "additionalProperties"}:
            resolved[name] = resolve(resolved[name])
        if "anyOf" in resolved:
            resolved["anyOf"] = [resolve(choice) for choice in resolved["anyOf"]]
        if "properties" in resolved:
            resolved["properties"] = {
                name: resolve(inner) for name, inner in resolved["properties"].items()
            }
        return resolved

    built: JsonSchema = resolve(schema)
    return built


class LLM:
    """Completes prompts; engines and the layers around them derive from it."""

    name: str
    """The engine's kind: `vllm`, `openai`, `scripted`."""
    model: str
    """The model's identity in ids and reports."""
    sampling: Sampling
    gpus: int | None = None
    """GPUs that an engine in this process uses, if there are any; None for an engine that calls a server."""

    @property
    def context_window(self) -> int:
        """Most tokens of a prompt and its answer together."""
        raise NotImplementedError

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, in any order, each as soon as it is there.

        Raises:
            EngineUnavailable: the engine can't answer anything (not installed, no such model, no server).
            ValueError: two requests share an id.
        """
        raise NotImplementedError

    def stream(self, messages: Sequence[ChatMessage], max_tokens: int) -> Iterator[str]:
        """Yield one answer as text, for a conversation: in pieces if the engine streams, else as one.

        Raises:
            EngineUnavailable: the engine does not answer, or the answer breaks off; earlier pieces are valid.
        """
        (completion,) = self.complete(
            [Request("turn", tuple(messages), max_tokens=max_tokens)]
        )
        if not completion.text:
            raise EngineUnavailable(self.name, completion.reason or "it gave no answer")
        yield completion.text

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text by the model's tokenizer, else an estimate that is rarely too low."""
        raise NotImplementedError

    def free_gpu(self) -> None:
        """Free a GPU that others need. An engine without one stays open, since opening can take a minute."""

    def close(self) -> None:
        """Free the engine's GPU memory and connections. A later `complete` opens it again."""


class Layer(LLM):
    """Base of a layer: everything of an `LLM` except `complete` comes from `inner`."""

    def __init__(self, inner: LLM) -> None:
        self.inner = inner
        self.name = inner.name
        self.model = inner.model
        self.sampling = inner.sampling

    @property
    def context_window(self) -> int:
        """The engine's context window, in tokens."""
        return self.inner.context_window

    def stream(self, messages: Sequence[ChatMessage], max_tokens: int) -> Iterator[str]:
        """Yield the engine's answer in pieces."""
        return self.inner.stream(messages, max_tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return tokens of each text, by the engine's count."""
        return self.inner.count_tokens(texts)

    def free_gpu(self) -> None:
        """Let the engine free its GPU."""
        self.inner.free_gpu()

    def close(self) -> None:
        """Close the engine."""
        self.inner.close()


def make_failure(
    request: Request,
    error: ErrorKind,
    reason: str,
    llm: LLM | None = None,
) -> Completion:
    """Return a failed completion of a request."""
    engine, model = (llm.name, llm.model) if llm else ("", "")
    return Completion(
        request.id,
        error=error,
        reason=reason,
        finish_reason="error",
        engine=engine,
        model=model,
    )


def index_by_id(requests: Iterable[Request]) -> dict[str, Request]:
    """Return requests by id, in order.

    Raises:
        ValueError: an id occurs twice.
    """
    by_id: dict[str, Request] = {}
    for request in requests:
        if request.id in by_id:
            raise ValueError(
                f"two requests of one call have the id {request.id!r}; make ids unique within a call"
            )
        by_id[request.id] = request
    return by_id


def count_template_tokens(request: Request) -> int:
    """Return the most tokens that a chat template adds: marks of each turn, the answer's opening, a default system."""
    return 40 + 8 * len(request.messages)


def count_prompt_tokens(llm: LLM, requests: Sequence[Request]) -> list[int]:
    """Return an upper bound of the tokens of each request's prompt, with its chat template."""
    contents = [
        message["content"] for request in requests for message in request.messages
    ]
    counts = iter(llm.count_tokens(contents))
    return [
        count_template_tokens(r) + sum(next(counts) for _ in r.messages)
        for r in requests
    ]


def split_fitting(
    llm: LLM, requests: Sequence[Request], used: Sequence[int] | None = None
) -> tuple[list[Request], list[Completion]]:
    """Return the requests that fit the context window with an answer of full length, and `too_long` errors for the
    others.

    `used` has the tokens of each prompt, if the engine knows them; default: `count_prompt_tokens`.
    """
    window = llm.context_window
    fit: list[Request] = []
    long: list[Completion] = []
    for request, tokens in zip(
        requests,
        count_prompt_tokens(llm, requests) if used is None else used,
        strict=True,
    ):
        if tokens + request.max_tokens <= window:
            fit.append(request)
        else:
            why = f"a prompt of {tokens:,} tokens and an answer of up to {request.max_tokens:,} exceed the {window:,}"
            long.append(
                make_failure(
                    request=request,
                    error="too_long",
                    reason=f"{why} tokens of {llm.model}'s context window",
                    llm=llm,
                )
            )
    return fit, long


def build_sampling(settings: LLMSettings) -> Sampling:
    """Return the sampling parameters of the settings."""
    return Sampling(settings.temperature, settings.seed, settings.repetition_penalty)
