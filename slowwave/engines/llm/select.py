"""Make the LLM that settings name, with its layers, and the chain in which later engines replace earlier ones.

    off                                        no LLM: everything is made by rules
    vllm:<folder or hub name>                  in this process
    openai:<model>@<url>                       any OpenAI-compatible server
    scripted                                   a fake: the emptiest answer each schema allows
    scripted:<module>:<function>               a fake: the function's result for each request. If the function has an
                                               attribute `model`, this is the fake's model.
    vllm:… > openai:…                          a chain: each request goes to the next engine if one can't answer it

`->` and `→` are the same as `>`. A chain is one writer (`slowwave.tasks.llm.writer`): its later models replace the
first one. Requests that none can answer wait for another night.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import TypeVar
from urllib.parse import urlsplit

from slowwave.engines.llm.budget import Budget, BudgetedLLM
from slowwave.engines.llm.cache import CachedLLM, CompletionCache
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.copies import make_vllm
from slowwave.engines.llm.protocol import (
    LLM,
    ChatMessage,
    Completion,
    EngineUnavailable,
    Request,
    index_by_id,
    make_failure,
)
from slowwave.engines.llm.scripted import Script, ScriptedLLM
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings

T = TypeVar("T")
OFFERED = "vllm:<folder or name>, openai:<model>@<url>, or several with > between them"
"""Forms of models that answer a person; `scripted` is for tests."""


class ChainLLM(LLM):
    """Sends requests to `engines` in order; answers of later engines have the flag `fallback` and their model's name.

    An unavailable engine is not called again by this object; `notes` records it for the report. The chain's name, model
    and sampling are those of its first engine.
    """

    def __init__(self, engines: Sequence[LLM]) -> None:
        self.engines = tuple(engines)
        self.name = engines[0].name
        self.model = engines[0].model
        self.sampling = engines[0].sampling
        self.down: dict[LLM, EngineUnavailable] = {}
        self.notes: list[str] = []

    @property
    def context_window(self) -> int:
        """The context window of the first available engine.

        Raises:
            EngineUnavailable: no engine is available.
        """
        return self._ask_first(lambda engine: engine.context_window)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens with the first available engine."""
        return self._ask_first(lambda engine: engine.count_tokens(texts))

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request: the first good answer, or the last engine's error with the errors of all.

        Raises:
            EngineUnavailable: no engine of the chain is available.
        """
        pending = index_by_id(requests)
        errors: dict[str, list[Completion]] = {id_: [] for id_ in pending}
        for engine in self._list_available():
            yield from self._ask_engine(engine, pending, errors)
            if not pending:
                return
        if len(self.down) == len(self.engines) and not any(errors.values()):
            raise self._make_unavailable()
        for request in pending.values():
            yield _merge_errors(request, errors[request.id])

    def stream(self, messages: Sequence[ChatMessage], max_tokens: int) -> Iterator[str]:
        """Yield an answer in pieces, from the first engine that answers."""

        def begin(engine: LLM) -> tuple[str, Iterator[str]]:
            pieces = engine.stream(messages, max_tokens)
            return next(pieces), pieces

        first, others = self._ask_first(begin)
        yield first
        yield from others

    def free_gpu(self) -> None:
        """Let every engine free its GPU."""
        for engine in self.engines:
            engine.free_gpu()

    def close(self) -> None:
        """Close every engine."""
        for engine in self.engines:
            engine.close()

    def _ask_first(self, question: Callable[[LLM], T]) -> T:
        """Return the result of a call that any engine can answer, from the first available one.

        If none is left, all are tried again: a conversation continues when its server is back.
        """
        for engine in self._list_available() or self.engines:
            try:
                return question(engine)
            except EngineUnavailable as error:
                self._note_down(engine, error)
        raise self._make_unavailable()

    def _ask_engine(
        self,
        engine: LLM,
        pending: dict[str, Request],
        errors: dict[str, list[Completion]],
    ) -> Iterator[Completion]:
        """Yield one engine's good answers and remove them from `pending`; keep errors for later engines or the end."""
        count = len(pending)
        good = 0
        unpaid = 0
        first = engine is self.engines[0]
        try:
            for completion in engine.complete(list(pending.values())):
                if not completion.ok:
                    errors[completion.id].append(completion)
                    unpaid += completion.error == "budget"
                    continue
                good += 1
                del pending[completion.id]
                yield (
                    completion
                    if first
                    else replace(completion, flags=(*completion.flags, "fallback"))
                )
        except EngineUnavailable as error:
            self._note_down(engine, error)
        who = f"{engine.name} ({engine.model})"
        if not first and count > unpaid:
            self.notes.append(
                f"{who} was asked {count - unpaid:,} times instead and answered {good:,}"
            )
        if not first and unpaid:
            self.notes.append(
                f"{who} was not asked {unpaid:,} times instead: the night's token budget is spent"
            )

    def _list_available(self) -> list[LLM]:
        return [engine for engine in self.engines if engine not in self.down]

    def _note_down(self, engine: LLM, error: EngineUnavailable) -> None:
        self.down[engine] = error
        self.notes.append(str(error))

    def _make_unavailable(self) -> EngineUnavailable:
        if len(self.engines) == 1:
            return self.down[self.engines[0]]
        return EngineUnavailable(
            "every engine of the chain",
            "; ".join(error.why for error in self.down.values()),
        )


def _merge_errors(request: Request, errors: Sequence[Completion]) -> Completion:
    """Return the last engine's error, with the errors of all engines as its reason."""
    if not errors:
        return make_failure(
            request, "unavailable", "no engine of the chain could be had"
        )
    reasons = "; ".join(
        f"{e.engine or 'engine'}: {e.error}: {e.reason}" for e in errors
    )
    return replace(errors[-1], reason=reasons if len(errors) > 1 else errors[-1].reason)


def select_llm(
    spec: str,
    settings: LLMSettings | None = None,
    cache: CompletionCache | None = None,
    budget: Budget | None = None,
    place: Callable[[LLM], LLM] = lambda engine: engine,
) -> ChainLLM | None:
    """Return the LLM that `spec` names; None if it names none. Nothing is loaded or called yet.

    The layers around each engine are, from the inside out, the token budget, the checks and the completions cache. So a
    cached answer passes no other layer, and costs nothing. A given `budget` is shared with other engines; else the
    settings' budget is used. `place` can move an engine to another machine; its layers stay on this one.

    Raises:
        UsageError: `spec` has none of the forms above.
    """
    settings = settings or LLMSettings()
    # the named engines
    names = [part.strip() for part in re.split(r"->|→|>", spec)]
    if names == ["off"]:
        return None
    if "extractive" in names:
        raise UsageError(
            f"llm {spec!r}: a memory has one writer, and rules never fill in for a model: what it can't answer waits, "
            "and gists alone are extractive meanwhile: leave `extractive` out, or name `off`"
        )
    if budget is None and settings.max_tokens is not None:
        budget = Budget(settings.max_tokens)
    # the layers around each
    engines: list[LLM] = []
    for name in names:
        engine = place(make_engine(name, settings))
        checked = CheckedLLM(BudgetedLLM(engine, budget) if budget else engine)
        engines.append(checked if cache is None else CachedLLM(checked, cache))
    return ChainLLM(engines)


def make_engine(name: str, settings: LLMSettings) -> LLM:
    """Return one engine without layers.

    Raises:
        UsageError: the name has none of the forms.
    """
    kind, _, rest = name.partition(":")
    if kind == "vllm" and rest:
        return make_vllm(rest, settings)
    if kind == "openai" and "@" in rest:
        from slowwave.engines.llm.openai import (
            OpenAIServer,  # a fifth of a second, with its client
        )

        model, _, url = rest.rpartition("@")
        if not _is_base_url(url):
            raise UsageError(
                f"{name!r}: {url!r} is not a base URL; expected http://host:port/v1"
            )
        return OpenAIServer(model, url, settings)
    if kind == "scripted":
        script = _import_function(name, rest) if rest else None
        return ScriptedLLM(script, model=getattr(script, "model", "scripted"))
    raise UsageError(f"no LLM engine {name!r}: expected off, {OFFERED}")


def _import_function(name: str, path: str) -> Script:
    """Return the function at `module:function`."""
    try:
        script: Script = resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"no LLM engine {name!r}: {error}; expected scripted:<module>:<function>"
        ) from error
    if not callable(script):
        raise UsageError(
            f"no LLM engine {name!r}: {path} is not a function; expected scripted:<module>:<function>"
        )
    return script


def _is_base_url(url: str) -> bool:
    """Return True for one URL of http or https with a host and, if it has a port, a number as the port."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and "," not in url
        )
    except ValueError:
        return False
