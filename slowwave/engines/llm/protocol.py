"""The LLM protocol: requests with ids in, one completion for each id out, as soon as it is there.

Everything that answers is an `LLM`, and so is every layer around one: the checks (`checks.py`), the completions
cache (`cache.py`), the token budget (`budget.py`) and the fallback chain (`select.py`). A step sees one object:

    for completion in llm.complete(requests):   # any order, exactly one a request
        if completion.ok: use(completion.id, completion.value)
        else: quarantine(completion.id, completion.error, completion.reason)

A request that fails is a completion with an error, never an exception; `EngineUnavailable` says that no request can be
answered at all. Answers are matched by id and never by text: equal prompts are common.
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
"""For constrained decoding: no references, every field required, `maxItems` set, keywords of `KEYWORDS` alone."""

KEYWORDS = (
    *("type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("minimum", "maximum", "enum", "const", "anyOf"),
)
"""The keywords that xgrammar 0.2.8 and llguidance 1.7.6 both enforce as JSON Schema defines them. Pydantic checks the
others of an answer's form afterwards."""
LENGTHS = ("minLength", "maxLength")
"""llguidance enforces these. Under them xgrammar 0.2.8 admits no escape in a string (no quote mark, no backslash, no
new line), and admits raw control characters, which JSON forbids."""
NON_EMPTY: dict[str, JsonValue] = {"minLength": 1}
"""`json_schema_extra` of a text that constrained decoding must not leave empty. An empty one from a server is valid:
what reads the answer decides what it is worth."""

DEFAULT_WINDOW = 8_192
"""Context window where neither a setting nor a server says: the prompts of the default settings need up to 6,000."""

FinishReason = Literal["stop", "length", "repetition", "content_filter", "error"]

ErrorKind = Literal[
    "too_long",  # prompt and budget don't fit the context window; nothing was sent
    "cut",  # the answer reached its budget, the retry's too
    "empty",  # an answer without text
    "not_json",  # an answer that should be JSON and is not
    "schema",  # JSON of another shape than asked for
    "runaway",  # many times longer than the budget, or one phrase or blanks over and over
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
"""Errors that the same request to the same model would meet again; the others are tried anew."""

KEPT: frozenset[ErrorKind] = LASTING - {"too_long"}
"""Errors that the completions cache keeps: what is too long depends on the server's settings, and asking is free."""


class EngineUnavailable(EngineError):
    """The engine called `engine` can answer nothing: `why` says what to install, start or set."""

    def __init__(self, engine: str, why: str) -> None:
        self.engine, self.why = engine, why
        super().__init__(f"{engine} is unavailable: {why}")

    def __reduce__(self) -> tuple[type["EngineUnavailable"], tuple[str, str]]:
        """Return how another process makes it anew: an engine may be asked there."""
        return type(self), (self.engine, self.why)


class ModelNotServed(EngineUnavailable):
    """The engine has no model of that name, and no later night will have one: the name in the settings is wrong."""

    exit_status = 3


class Message(TypedDict):
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
    """Base of what a model is asked to answer as JSON: every field required, no other allowed, no type coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. `id` is unique within a call; `answer` is the form of the answer, None asks for plain text."""

    id: str
    messages: tuple[Message, ...]
    answer: type[AnswerModel] | None = None
    max_tokens: int = 1_024
    frequency_penalty: float = 0.0
    """What a token's logit loses for each time that the token stands in the answer: for the second attempt at an answer
    that went in circles."""

    @property
    def schema(self) -> JsonSchema | None:
        """The answer's form for constrained decoding by any backend."""
        return None if self.answer is None else build_json_schema(self.answer)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to the request of that id: `value` (of the request's `answer`, or else the text) or `error`."""

    id: str
    text: str = ""
    value: Any = None
    error: ErrorKind | None = None
    reason: str = ""
    """The error, for a person."""
    finish_reason: FinishReason = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefix_tokens: int = 0
    """Prompt tokens the engine did not compute again (prefix cache)."""
    cached: bool = False
    """Whether the answer comes from the completions cache and cost nothing."""
    engine: str = ""
    model: str = ""
    flags: tuple[str, ...] = field(default=())
    """What happened on the way: `retried` (a second attempt, tokens of both), `fallback` (by a later engine),
    `shortened` (a text was longer than its field admits, and was cut to that length)."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer that passed its checks."""
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
            resolved["properties"] = {name: resolve(inner) for name, inner in resolved["properties"].items()}
        return resolved

    built: JsonSchema = resolve(schema)
    return built


class LLM:
    """Anything that completes prompts; engines and the layers around them derive from it."""

    name: str
    """The engine's kind: `vllm`, `openai`, `scripted`."""
    model: str
    """The model's identity in ids and reports."""
    sampling: Sampling
    gpus: int | None = None
    """GPUs that an engine within this process takes, where there are any; None of one that only asks a server."""

    @property
    def context_window(self) -> int:
        """Tokens of prompt and answer together, at most."""
        raise NotImplementedError

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, in any order, each as soon as it is there (in-process vLLM: chunk by chunk).

        Raises:
            EngineUnavailable: the engine can't answer anything (not installed, no such model, no server).
            ValueError: two requests share an id.
        """
        raise NotImplementedError

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """Yield one answer in plain words, for a conversation: in pieces where the engine streams, else as one.

        Raises:
            EngineUnavailable: there is no answer, or it breaks off; pieces that came before are good.
        """
        (completion,) = self.complete([Request("turn", tuple(messages), max_tokens=max_tokens)])
        if not completion.text:
            raise EngineUnavailable(self.name, completion.reason or "it gave no answer")
        yield completion.text

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return tokens of each text by the model's tokenizer, else by an estimate that is rarely too low."""
        raise NotImplementedError

    def free_gpu(self) -> None:
        """Close, if the engine holds a GPU that others need; else it stays open, as opening may take a minute."""

    def close(self) -> None:
        """Free what the engine holds (GPU memory, connections). A later `complete` opens it again."""


class Layer(LLM):
    """Everything of an `LLM` but `complete`, from `inner`."""

    def __init__(self, inner: LLM) -> None:
        self.inner = inner
        self.name, self.model, self.sampling = inner.name, inner.model, inner.sampling

    @property
    def context_window(self) -> int:
        """The engine's context window, in tokens."""
        return self.inner.context_window

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """Yield the engine's answer in pieces."""
        return self.inner.stream(messages, max_tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return tokens of each text, by the engine's count."""
        return self.inner.count_tokens(texts)

    def free_gpu(self) -> None:
        """Have the engine give up its GPU."""
        self.inner.free_gpu()

    def close(self) -> None:
        """Close the engine."""
        self.inner.close()


def make_failure(request: Request, error: ErrorKind, reason: str, llm: LLM | None = None) -> Completion:
    """Return the completion of a request that got no answer."""
    engine, model = (llm.name, llm.model) if llm else ("", "")
    return Completion(request.id, error=error, reason=reason, finish_reason="error", engine=engine, model=model)


def index_by_id(requests: Iterable[Request]) -> dict[str, Request]:
    """Return requests by id, in order.

    Raises:
        ValueError: an id occurs twice.
    """
    by_id: dict[str, Request] = {}
    for request in requests:
        if request.id in by_id:
            raise ValueError(f"two requests of one call have the id {request.id!r}; make ids unique within a call")
        by_id[request.id] = request
    return by_id


def count_template_tokens(request: Request) -> int:
    """Return tokens that a chat template adds, at most: marks of each turn, the answer's opening, a default system."""
    return 40 + 8 * len(request.messages)


def count_prompt_tokens(llm: LLM, requests: Sequence[Request]) -> list[int]:
    """Return tokens of each request's whole prompt, template included, never fewer than the engine will count."""
    contents = [message["content"] for request in requests for message in request.messages]
    counts = iter(llm.count_tokens(contents))
    return [count_template_tokens(r) + sum(next(counts) for _ in r.messages) for r in requests]


def split_fitting(
    llm: LLM, requests: Sequence[Request], used: Sequence[int] | None = None
) -> tuple[list[Request], list[Completion]]:
    """Return requests that fit the context window with their whole answer, and `too_long` errors for the others.

    `used` is the tokens of each prompt where the engine knows them better than `count_prompt_tokens`.
    """
    window = llm.context_window
    fit: list[Request] = []
    long: list[Completion] = []
    for request, tokens in zip(requests, count_prompt_tokens(llm, requests) if used is None else used, strict=True):
        if tokens + request.max_tokens <= window:
            fit.append(request)
        else:
            why = f"a prompt of {tokens:,} tokens and an answer of up to {request.max_tokens:,} exceed the {window:,}"
            long.append(make_failure(request, "too_long", f"{why} tokens of {llm.model}'s context window", llm))
    return fit, long


def build_sampling(settings: LLMSettings) -> Sampling:
    """Return the sampling that settings ask for."""
    return Sampling(settings.temperature, settings.seed, settings.repetition_penalty)
