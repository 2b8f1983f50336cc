"""Fetch pages of the web within limits, and extract their main text with trafilatura.

A page's text is data for a model, never an instruction: it is reduced to one block of plain text. Pages on private and
loopback addresses are not fetched unless the settings allow it: a search result must not reach into the local network.
"""

import importlib.util
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.request import getproxies

import httpx

from slowwave.engines.http import LOOPBACK
from slowwave.plugins.talk.web.engines import (
    AGENT,
    TIMEOUT,
    WebResult,
    WebTrouble,
    read_bounded,
    strip_markup,
)
from slowwave.schemas.errors import name_install
from slowwave.schemas.settings import WebSettings

HTML = frozenset({"text/html", "application/xhtml+xml", ""})
INWARD = tuple(
    map(
        ipaddress.ip_network,
        ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fec0::/10"),
    )
)
"""Networks that reach IPv4 addresses of any kind, or were private once; Python calls them public."""


def fill_page_texts(
    results: Sequence[WebResult], settings: WebSettings, *, most_chars: int = 2_000
) -> tuple[list[WebResult], list[str]]:
    """Fetch the pages of results in parallel; return the results with at most `most_chars` of text, and a note for
    each page that failed.
    """
    if not results or not settings.pages:
        return list(results), []
    if importlib.util.find_spec("trafilatura") is None:
        note = f"trafilatura is not installed ({name_install('web')}): snippets are used in place of pages"
        return list(results), [note]

    def fill(result: WebResult) -> tuple[WebResult, str]:
        try:
            return replace(
                result,
                text=shorten_text(fetch_page_text(result.url, settings), most_chars),
            ), ""
        except WebTrouble as trouble:
            return result, f"{trouble}: its snippet is used"

    with ThreadPoolExecutor(len(results), thread_name_prefix="slowwave-web") as pool:
        filled = list(pool.map(fill, results))
    return [result for result, _ in filled], [note for _, note in filled if note]


def fetch_page_text(url: str, settings: WebSettings) -> str:
    """Return the main text of a page, paragraphs on lines of their own.

    Raises:
        WebTrouble: it can't be fetched within the limits, is not text, or has no main text.
    """
    # A proxy looks names up itself.
    pinned = None if settings.private_pages or getproxies() else PublicTransport()
    check = (
        []
        if settings.private_pages
        else [lambda request: _find_public_address(request.url)]
    )
    try:
        with httpx.Client(
            timeout=TIMEOUT,
            trust_env=httpx.URL(url).host
            not in LOOPBACK,  # no proxy for this machine itself
            headers={"user-agent": AGENT, "accept": "text/html, text/plain;q=0.8"},
            follow_redirects=True,
            max_redirects=4,
            transport=pinned,
            event_hooks={"request": check},  # called for each redirect too
        ) as client:
            body = read_bounded(client, url, url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WebTrouble(url, f"{type(error).__name__} {error}".rstrip()) from None
    media = body.headers["content-type"].partition(";")[0].strip().lower()
    if media == "text/plain":
        text = body.content.decode("utf-8", "replace")
    elif media in HTML:
        text = _extract_main_text(body.content, url)
    else:
        raise WebTrouble(url, f"{media} is not a page")
    if not text.strip():
        raise WebTrouble(url, "it has no main text")
    return text.strip()


def _extract_main_text(content: bytes, url: str) -> str:
    """Return the main text of an HTML page; empty if it has none."""
    import trafilatura  # type: ignore[import-not-found,unused-ignore]

    text = trafilatura.extract(
        content,
        url=url,
        include_comments=False,
        include_images=False,
        favor_precision=True,
    )
    return str(text or "")


class PublicTransport(httpx.HTTPTransport):
    """Connects to the address that was checked: a second lookup of the name could return another address."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to a public address of its host, with the host's name in header and certificate.

        Raises:
            WebTrouble: as `_find_public_address`.
        """
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=_find_public_address(request.url)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(pinned)


def _find_public_address(url: httpx.URL) -> str:
    """Return an address of a URL's host.

    Raises:
        WebTrouble: one of its addresses is private, loopback or otherwise special, or there is none.
    """
    try:
        addresses = [
            str(info[4][0])
            for info in socket.getaddrinfo(url.host, None, type=socket.SOCK_STREAM)
        ]
    except (OSError, UnicodeError) as error:
        raise WebTrouble(str(url), f"no address for {url.host} ({error})") from None
    if not addresses or not all(map(_is_public, addresses)):
        raise WebTrouble(str(url), f"{url.host} is on a private network")
    return addresses[0]


def _is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return parsed.is_global and not any(
        parsed in network for network in INWARD if network.version == parsed.version
    )


def shorten_text(text: str, chars: int) -> str:
    """Return the start of a text, at most `chars` long.

    It ends with the last line or sentence that ends in its second half. If none does, it ends with a word, on one line
    and without tags.
    """
    if len(text) <= chars:
        return text
    head = text[:chars]
    ends = [
        head.rfind(mark) + len(mark)
        for mark in ("\n", ". ", "! ", "? ", "。")
        if mark in head
    ]
    return (
        head[: max(ends)].rstrip()
        if ends and max(ends) > chars // 2
        else strip_markup(head.rsplit(" ", 1)[0])
    )
