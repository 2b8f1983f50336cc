"""Search engines on the web behind one Protocol: SearXNG, Google's Custom Search API, and ddgs.

An engine takes a query and returns ranked pages. It raises `WebTrouble` for any failure; the next engine is then asked.
An engine is made only if the settings have all that it needs.
"""

import importlib.util
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Protocol

import httpx

from slowwave.engines.http import LOOPBACK
from slowwave.schemas.errors import SlowwaveError, name_install
from slowwave.schemas.settings import EngineName, WebSettings

TIMEOUT = 8.0
"""Seconds that a search or a page may take in all."""
AGENT = "slowwave (web search for one person's assistant)"
GOOGLE_URL = "https://www.googleapis.com/customsearch/v1"
GOOGLE_KEY = "SLOWWAVE_GOOGLE_KEY"
"""Name of the variable that holds the key."""
TAG = re.compile(r"<[^>]{1,200}>")


class WebTrouble(SlowwaveError):
    """A search failed or a page could not be fetched: `where` and `why`."""

    def __init__(self, where: str, why: str) -> None:
        self.where = where
        self.why = why
        super().__init__(f"{where}: {why}")


@dataclass(frozen=True, slots=True)
class WebResult:
    """A page that was found; `text` is its main text, or the engine's snippet if the page could not be fetched."""

    title: str
    url: str
    text: str
    engine: str


class WebEngine(Protocol):
    """Finds pages for a query."""

    @property
    def name(self) -> str:
        """The engine's name in notes."""
        ...

    def search(self, query: str, limit: int) -> list[WebResult]:
        """Return up to `limit` pages, best first, with snippets as their text.

        Raises:
            WebTrouble: the engine failed, or its answer is not a list of results.
        """
        ...


@dataclass(frozen=True, slots=True)
class JsonEngine:
    """An engine with a JSON API."""

    name: str
    url: str
    params: Mapping[str, str]
    """Parameters sent beside the query."""
    results: str
    """Field of the answer with the results; an answer without it has none."""
    fields: tuple[str, str, str]
    """Fields of a result with its title, address and snippet."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def search(self, query: str, limit: int) -> list[WebResult]:
        """As in the Protocol."""
        try:
            # This machine is reached without a proxy.
            local = httpx.URL(self.url).host in LOOPBACK
            headers = {"user-agent": AGENT, **self.headers}
            with httpx.Client(
                timeout=TIMEOUT, headers=headers, trust_env=not local
            ) as client:
                params = {"q": query, **self.params}
                answer = read_bounded(client, self.name, self.url, params=params).json()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise WebTrouble(
                self.name, f"{type(error).__name__} {error}".rstrip()
            ) from None
        except ValueError:
            raise WebTrouble(self.name, "the answer is not JSON") from None
        if not isinstance(answer, dict):
            raise WebTrouble(self.name, "the answer is not a JSON object")
        return _parse_results(
            engine=self.name,
            records=answer.get(self.results, []),
            names=self.fields,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class DDGS:
    """The package `ddgs`, a metasearch over several public engines that needs no key."""

    name: str = "ddgs"

    def search(self, query: str, limit: int) -> list[WebResult]:
        """As in the Protocol."""
        import ddgs  # type: ignore[import-not-found,unused-ignore]
        from ddgs.exceptions import DDGSException  # type: ignore[import-not-found,unused-ignore]

        try:
            results = ddgs.DDGS(timeout=int(TIMEOUT)).text(query, max_results=limit)
        except DDGSException as error:
            raise WebTrouble(self.name, str(error) or type(error).__name__) from None
        return _parse_results(
            engine=self.name,
            records=results,
            names=("title", "href", "body"),
            limit=limit,
        )


def make_engines(settings: WebSettings) -> tuple[list[WebEngine], list[str]]:
    """Return the usable engines of the settings, in order, and for each other engine what it lacks."""
    made = [_make_engine(name, settings) for name in settings.engines]
    return [engine for engine in made if not isinstance(engine, str)], [
        engine for engine in made if isinstance(engine, str)
    ]


def _make_engine(name: EngineName, settings: WebSettings) -> WebEngine | str:
    """Return the engine, or a message that says what it lacks."""
    if name == "searxng":
        # Its setting `search.formats` must list `json`, else it answers with status 403.
        if not settings.searxng_url:
            return "searxng: set web.searxng_url"
        url = settings.searxng_url.rstrip("/") + "/search"
        return JsonEngine(
            name=name,
            url=url,
            params={"format": "json"},
            results="results",
            fields=("title", "url", "content"),
        )
    if name == "google":  # its key stays in the environment and goes out as a header
        key = os.environ.get(GOOGLE_KEY)
        if not key or not settings.google_cx:
            return f"google: set web.google_cx, and {GOOGLE_KEY} in the environment"
        params = {"cx": settings.google_cx, "num": str(settings.results)}
        headers = {"x-goog-api-key": key}
        fields = ("title", "link", "snippet")
        return JsonEngine(
            name=name,
            url=GOOGLE_URL,
            params=params,
            results="items",
            fields=fields,
            headers=headers,
        )
    if importlib.util.find_spec("ddgs") is None:
        return f"ddgs: {name_install('web')}"
    return DDGS()


def read_bounded(
    client: httpx.Client,
    where: str,
    url: str,
    max_bytes: int = 2_000_000,
    params: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Fetch a URL: return its answer if it has status 200 and is complete within TIMEOUT and `max_bytes`.

    httpx's own timeout applies to each read; the deadline here applies to all reads together.

    Raises:
        WebTrouble: another status, or an answer that is too slow or too large.
        httpx.HTTPError: the connection failed or broke.
    """
    until = time.monotonic() + TIMEOUT
    content = bytearray()
    with client.stream("GET", url, params=params) as response:
        if response.status_code != 200:
            raise WebTrouble(where, f"status {response.status_code}")
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > max_bytes:
                raise WebTrouble(where, f"larger than {max_bytes:,} bytes")
            if time.monotonic() > until:
                raise WebTrouble(where, f"not whole within {TIMEOUT:g} s")
        # the content is decoded already, so other headers would be wrong
        kind = {"content-type": response.headers.get("content-type", "")}
        return httpx.Response(200, content=bytes(content), headers=kind)


def _parse_results(
    engine: str,
    records: object,
    names: tuple[str, str, str],
    limit: int,
) -> list[WebResult]:
    """Parse an engine's records as results; `names` are the fields of title, address and snippet.

    Raises:
        WebTrouble: the records are not a list.
    """
    if not isinstance(records, Iterable) or isinstance(records, str | bytes | Mapping):
        raise WebTrouble(engine, "the answer holds no list of results")
    results: dict[str, WebResult] = {}
    for record in records:
        if isinstance(record, Mapping) and is_web_url(url := record.get(names[1])):
            title, text = (
                strip_markup(record.get(name)) for name in (names[0], names[2])
            )
            results.setdefault(
                str(url), WebResult(title=title, url=str(url), text=text, engine=engine)
            )
    return list(results.values())[:limit]


def is_web_url(url: object) -> bool:
    """Return True for the address of a web page."""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def strip_markup(text: object) -> str:
    """Return one line of text without tags and entities."""
    return (
        " ".join(unescape(TAG.sub(" ", text)).split()) if isinstance(text, str) else ""
    )
