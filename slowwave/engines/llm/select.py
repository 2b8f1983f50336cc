"""The LLM that settings name, with every layer around it.

    off                                        no LLM: everything is extractive
    vllm:<folder or hub name>                  in this process
    openai:<model>@<url>[,<url>…]              any OpenAI-compatible server, or several of the same model
    scripted                                   the fake that ships: the emptiest answer each schema allows
    scripted:<module>:<function>               the fake that ships: what the function makes of each request
    vllm:… > openai:… > extractive             a chain: what one can't answer the next one is asked

`->` and `→` are the same as `>`. At the end of a chain `extractive` says that what no model answered is made without
one; without it, such work is quarantined with its reason and tried again in the next night.
"""

import re
from dataclasses import dataclass
from importlib import import_module

from slowwave.engines.llm.budget import Budget, BudgetedLLM
from slowwave.engines.llm.cache import CachedLLM, CompletionCache
from slowwave.engines.llm.chain import ChainLLM
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.protocol import LLM
from slowwave.engines.llm.scripted import Script, ScriptedLLM
from slowwave.engines.llm.vllm_offline import VLLMOffline
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings

FORMS = "off, vllm:<folder or name>, openai:<model>@<url>[,<url>], scripted, or several with > between them"


@dataclass(frozen=True, slots=True)
class Choice:
    """What settings name: a chain of engines, or none."""

    chain: ChainLLM | None
    extractive: bool
    """Whether work that no model did is done without one, rather than left for the next night."""
    budget: Budget | None = None

    @property
    def notes(self) -> list[str]:
        """What the report must say: engines that were unavailable, and who answered instead."""
        return self.chain.notes if self.chain else []


def select_llm(
    spec: str,
    settings: LLMSettings | None = None,
    cache: CompletionCache | None = None,
    budget: Budget | None = None,
) -> Choice:
    """Return the LLM that `spec` names. Nothing is loaded or asked yet.

    Around each engine lie its token budget, the checks, and the completions cache, from the inside out. A `budget` that
    is given is shared with others; else it is that of the settings.

    Raises:
        UsageError: `spec` is none of the forms above.
    """
    settings = settings or LLMSettings()
    parts = [part.strip() for part in re.split(r"->|→|>", spec)]
    extractive = parts[-1] == "extractive" or parts == ["off"]
    names = parts[:-1] if extractive else parts
    if not names:
        return Choice(None, extractive=True)
    if budget is None and settings.max_tokens is not None:
        budget = Budget(settings.max_tokens)
    engines = [add_layers(make_engine(name, settings), settings, cache, budget) for name in names]
    return Choice(ChainLLM(engines), extractive, budget)


def make_engine(name: str, settings: LLMSettings) -> LLM:
    """Return one engine, bare.

    Raises:
        UsageError: the name is none of the forms.
    """
    kind, _, rest = name.partition(":")
    if kind == "vllm" and rest:
        return VLLMOffline(rest, settings)
    if kind == "openai" and "@" in rest:
        from slowwave.engines.llm.openai_server import OpenAIServer  # a fifth of a second, with its client

        model, _, urls = rest.rpartition("@")
        return OpenAIServer(model, _parse_base_urls(name, urls), settings)
    if kind == "scripted":
        return ScriptedLLM(_import_function(name, rest) if rest else None)
    raise UsageError(f"no LLM engine {name!r}: expected {FORMS}")


def add_layers(llm: LLM, settings: LLMSettings, cache: CompletionCache | None, budget: Budget | None) -> LLM:
    """Return an engine with its layers: a kept answer passes none of the others, and costs nothing."""
    counted = BudgetedLLM(llm, budget) if budget else llm
    checked = CheckedLLM(counted)
    return CachedLLM(checked, cache) if cache is not None else checked


def _import_function(name: str, path: str) -> Script:
    """Return the function at `module:function`."""
    module, _, function = path.partition(":")
    try:
        found: Script = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no LLM engine {name!r}: {error}; expected scripted:<module>:<function>") from error
    if not callable(found):
        raise UsageError(f"no LLM engine {name!r}: {path} is no function; expected scripted:<module>:<function>")
    return found


def _parse_base_urls(name: str, urls: str) -> list[str]:
    """Return base URLs from a comma-separated list."""
    listed = [url.strip() for url in urls.split(",") if url.strip()]
    wrong = [url for url in listed if not _is_base_url(url)]
    if wrong or not listed:
        raise UsageError(f"{name!r}: {wrong or 'nothing'} is no base URL; expected http://host:port/v1")
    return listed


def _is_base_url(url: str) -> bool:
    """Return whether a request can be sent there: http or https, a host, and a port that is a number where there is
    one.
    """
    import httpx

    try:
        read = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return read.scheme in ("http", "https") and bool(read.host)
