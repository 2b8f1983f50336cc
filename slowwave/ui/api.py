"""The description of the pages' addresses, as OpenAPI has it, made of the functions that answer them."""

from importlib.metadata import version
from typing import Any, get_args

from slowwave.ui.page import Data, Explorer, Page


def describe_api(at: Explorer) -> Data:
    """Return the addresses with their parameters: as JSON a document of OpenAPI."""
    paths: Data = {}
    for page in at.pages:
        path = "/index.json" if page.path == "/" else f"{page.path.replace(':path', '')}.json"
        known = _describe_parameters(page)
        places = {name: "path" if f"{{{name}}}" in path else "query" for name in known}
        parameters = [{"name": name, "in": places[name], **facts} for name, facts in known.items()]
        paths[path] = {"get": {**_describe_answer(page), "parameters": parameters}}
    for name, action in at.actions.items():
        page = Page(f"/do/{name}", action, "")
        known = _describe_parameters(page)
        needed = [name for name, facts in known.items() if facts["required"]]
        fields = {name: facts["schema"] | {"description": facts["description"]} for name, facts in known.items()}
        schema = {"type": "object", "properties": fields, "required": needed}
        body = {"content": {"application/x-www-form-urlencoded": {"schema": schema}}}
        paths[f"{page.path}.json"] = {"post": {**_describe_answer(page), "requestBody": body}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "slowwave", "version": version("slowwave")},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _describe_parameters(page: Page) -> dict[str, Data]:
    """Return each parameter's description, type and whether it is required."""
    described: dict[str, Data] = {}
    for name, parameter in page.parameters.items():
        about = next((word for word in get_args(parameter.annotation)[1:] if isinstance(word, str)), name)
        kind = "integer" if isinstance(parameter.default, int) else "string"
        described[name] = {
            "description": about,
            "required": parameter.default is parameter.empty,
            "schema": {"type": kind},
        }
    return described


def _describe_answer(page: Page) -> dict[str, Any]:
    summary = (page.build.__doc__ or "").partition("\n")[0]
    return {"summary": summary, "responses": {"200": {"description": "The data of the page."}}}


PAGES = (Page("/api", describe_api, "api.html"),)
