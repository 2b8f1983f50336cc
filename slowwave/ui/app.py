"""The explorer: an ASGI app over one space, for this machine only.

A page is a function that returns plain data. Its template renders them; the address with `.json` appended returns them
as JSON. Every request needs the token, which the printed address stores in a cookie. A POST must also come from the
same origin. The pages have no scripts, and the Content-Security-Policy forbids them.
"""

from functools import partial
from importlib.metadata import version
from pathlib import Path
from secrets import compare_digest
from urllib.parse import parse_qsl, urlencode

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slowwave.recall.hits import spell_time
from slowwave.schemas.errors import (
    NoRelease,
    NoSuchId,
    SlowwaveError,
    StoreLocked,
    StoreMissing,
    name_install,
)
from slowwave.schemas.settings import Settings
from slowwave.ui.actions import ACTIONS
from slowwave.ui.actions import PAGES as ACTION_PAGES
from slowwave.ui.injected import PAGES as INJECTED_PAGES
from slowwave.ui.page import Data, Explorer, Page
from slowwave.ui.pages import PAGES
from slowwave.ui.projects import PAGES as PROJECT_PAGES
from slowwave.ui.rendering import make_environment
from slowwave.ui.topics import PAGES as TOPIC_PAGES

LOOPBACK = ("127.0.0.1", "localhost")
MOST_BODY = 64 * 1024
"""Most bytes of a form."""
SAFE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # With no-referrer a browser sends `Origin: null` with a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NAV = {
    "/": "Tonight",
    "/search": "Search",
    "/topics": "Topics",
    "/injected": "Injected",
    "/coverage": "Coverage",
}
STATIC = Path(__file__).parent / "static"


class Guard:
    """Requires the token, as a cookie or bearer; accepts a POST only if it is small and from the same origin."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
    ) -> None:
        self.app = app
        self.token = token

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Log in, pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in SAFE_HEADERS.items()),
                ]
            await send(message)

        own = self.log_in(request) or self.refuse(request)
        if own is not None:
            await own(scope, receive, send_safely)
        else:
            await self.app(scope, receive, send_safely)

    def log_in(self, request: Request) -> Response | None:
        """Return a redirect that sets the cookie, if the address has the token; None if not."""
        given = request.query_params.get("token")
        if given is None or not self.is_token(given):
            return None
        asked = request.query_params.multi_items()
        rest = urlencode([(key, value) for key, value in asked if key != "token"])
        path = f"/{request.url.path.lstrip('/')}"
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(
            self.name_cookie(request),
            self.token,
            httponly=True,
            samesite="strict",
            path="/",
        )
        return answer

    def refuse(self, request: Request) -> Response | None:
        """Return the response that refuses a request; None if it is allowed."""
        cookie = request.cookies.get(self.name_cookie(request))
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.is_token(cookie or bearer):
            return PlainTextResponse(
                "Open the address that `slowwave ui` printed: it has the token.\n", 401
            )
        if request.method not in ("GET", "HEAD"):
            origin = request.headers.get("origin")
            if origin != f"{request.url.scheme}://{request.headers.get('host')}" and (
                cookie or origin
            ):
                return PlainTextResponse(
                    "This was sent from another page than slowwave's own.\n", 403
                )
            if int(request.headers.get("content-length") or MOST_BODY + 1) > MOST_BODY:
                return PlainTextResponse(
                    f"A form may have {MOST_BODY:,} bytes, and says how many it has.\n",
                    413,
                )
        return None

    def is_token(self, given: str) -> bool:
        """Return True if the token is right; the comparison takes the same time for every wrong token."""
        return compare_digest(given.encode(), self.token.encode())

    def name_cookie(self, request: Request) -> str:
        """Return the cookie's name, which contains the port: all ports of a host share its cookies."""
        return f"slowwave-token-{request.url.port or 80}"


class Site:
    """The routes of the pages: each answers with HTML or, with `.json`, with its data."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.templates = make_environment(explorer.name_project)

    def answer(
        self,
        page: Page,
        request: Request,
    ) -> Response:
        """Return a page."""
        data = page.build(
            self.explorer, **page.parse({**request.query_params, **request.path_params})
        )
        return (
            make_json(data)
            if wants_json(request)
            else self.render(request, page.template, data)
        )

    async def act(
        self,
        page: Page,
        request: Request,
    ) -> Response:
        """Run an action, and redirect to the page that lists the actions with how to undo them."""
        form = page.parse(
            dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        )
        done = await run_in_threadpool(page.build, self.explorer, **form)
        return make_json(done) if wants_json(request) else RedirectResponse("/did", 303)

    def refuse(
        self,
        request: Request,
        refused: Exception,
    ) -> Response:
        """Return the response for an error: something is missing, or the request is invalid."""
        why = str(refused)
        status = 400
        empty = isinstance(refused, StoreMissing | NoRelease) and not getattr(
            refused, "release", None
        )
        match refused:
            case ModuleNotFoundError():
                why = f"this needs what a night does (no module {refused.name}): {name_install('night')}"
            case HTTPException():
                why = f"no page has the id {request.url.path!r:.100}"
                status = 404
            case StoreLocked():
                status = 409
            case NoSuchId():
                status = 404
        if empty:
            status = 404
        if wants_json(request):
            return make_json({"error": why}, status)
        return self.render(
            request=request,
            template="error.html",
            data={
                "why": why,
                "empty": empty,
                "words": request.url.path.rpartition("/")[2],
            },
            status=200 if empty else status,
        )

    def render(
        self,
        request: Request,
        template: str,
        data: Data,
        status: int = 200,
    ) -> Response:
        """Return data as a page."""
        about = {
            "nav": NAV.items(),
            "layout": "base.html",
            "links": True,
            "settings": self.explorer.settings,
        }
        about |= {
            "at": request.url.path,
            "query": str(request.url.query),
            "outcomes": self.explorer.outcomes,
        }
        about |= {"read_only": self.explorer.read_only, **data}
        return Response(
            self.templates.get_template(template).render(about),
            status,
            media_type="text/html",
        )


def wants_json(request: Request) -> bool:
    """Return True if the address asks for the data as JSON."""
    return request.url.path.endswith(".json")


def render_report(settings: Settings, run: str = "") -> str:
    """Return the page of a run (default: the last one) as one self-contained file.

    Raises:
        UsageError: no run has the id, or no run has ended yet.
    """
    from slowwave.flows.run_page import describe_run

    style = (STATIC / "ui.css").read_text(encoding="utf-8")
    about = {"layout": "alone.html", "style": style, "links": False}
    return (
        make_environment(Explorer(settings).name_project)
        .get_template("run_page.html")
        .render({**about, **describe_run(settings, run)})
    )


def make_json(data: Data, status: int = 200) -> Response:
    """Return plain data as JSON, with dates in ISO format."""
    return Response(
        orjson.dumps(
            data,
            default=lambda value: str(spell_time(value)),
            option=orjson.OPT_PASSTHROUGH_DATETIME,
        ),
        status,
        media_type="application/json",
    )


def describe_api(at: Explorer) -> Data:
    """Return an OpenAPI document of the addresses and their parameters."""
    paths: Data = {}
    answer = {"responses": {"200": {"description": "The data of the page."}}}
    for page in (
        *at.pages,
        *(Page(f"/do/{name}", action, "") for name, action in at.actions.items()),
    ):
        path = (
            "/index.json"
            if page.path == "/"
            else f"{page.path.replace(':path', '')}.json"
        )
        about = {"summary": (page.build.__doc__ or "").partition("\n")[0], **answer}
        schema = page.parameters.model_json_schema()
        # a page is read, an action is sent as a form
        if page.template:
            parameters = [
                {
                    "name": name,
                    "in": "path" if f"{{{name}}}" in path else "query",
                    "schema": facts,
                }
                | {
                    "description": facts["description"],
                    "required": name in schema.get("required", ()),
                }
                for name, facts in schema["properties"].items()
            ]
            paths[path] = {"get": {**about, "parameters": parameters}}
        else:
            form = {
                "content": {"application/x-www-form-urlencoded": {"schema": schema}}
            }
            paths[path] = {"post": {**about, "requestBody": form}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "slowwave", "version": version("slowwave")},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        },
        "paths": paths,
    }


def make_app(settings: Settings, *, read_only: bool = False) -> Starlette:
    """Return the app over a space, with its token in `app.state.explorer`; `read_only` omits the actions."""
    shown = (
        *PAGES,
        *TOPIC_PAGES,
        *PROJECT_PAGES,
        *INJECTED_PAGES,
        Page("/api", describe_api, "api.html"),
        *(() if read_only else ACTION_PAGES),
    )
    explorer = Explorer(
        settings, read_only, pages=shown, actions={} if read_only else ACTIONS
    )
    site = Site(explorer)
    icon = Route("/favicon.ico", lambda _: RedirectResponse("/static/icon.svg"))
    guards = [
        Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK, www_redirect=False)
    ]
    # Two routes a page and an action.
    routes: list[Route] = []
    for page in site.explorer.pages:
        for path in (
            "/index.json" if page.path == "/" else f"{page.path}.json",
            page.path,
        ):
            routes.append(Route(path, partial(site.answer, page), methods=["GET"]))
    for name, action in site.explorer.actions.items():
        act = partial(site.act, Page(f"/do/{name}", action, ""))
        routes += [
            Route(f"/do/{name}{end}", act, methods=["POST"]) for end in ("", ".json")
        ]
    app = Starlette(
        routes=[*routes, icon, Mount("/static", StaticFiles(directory=STATIC))],
        middleware=[*guards, Middleware(Guard, token=explorer.token)],
        exception_handlers=dict.fromkeys(
            (SlowwaveError, ModuleNotFoundError, 404), site.refuse
        ),
    )
    app.state.explorer = explorer
    return app
