"""Where each setting's value comes from: the environment, a settings file, or the default."""

import os
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from slowwave.schemas.settings import Settings
from slowwave.schemas.settings_files import project_excludes, project_file, user_file, user_settings


@dataclass(frozen=True)
class SettingInForce:
    """One setting, its value, and who said so."""

    name: str
    value: Any
    origin: str
    description: str


def settings_in_force(settings: Settings) -> list[SettingInForce]:
    """Every setting by its dotted name."""
    environment = {name.upper() for name in os.environ}
    return _walk(settings, (), _set_by_files(), environment)


def _set_by_files() -> dict[str, Any]:
    """The names that files set, nested as in them, each with the files that set it."""
    own = _named_after(str(user_file()), user_settings(Settings))
    if project_excludes(Settings):
        read = own.setdefault("read", {})
        read["exclude"] = " and ".join([*([read["exclude"]] if "exclude" in read else []), str(project_file())])
    return own


def _named_after(path: str, table: dict[str, Any]) -> dict[str, Any]:
    return {name: _named_after(path, value) if isinstance(value, dict) else path for name, value in table.items()}


def _walk(
    model: BaseModel, above: tuple[str, ...], files: dict[str, Any], environment: set[str]
) -> list[SettingInForce]:
    rows: list[SettingInForce] = []
    for name, field in type(model).model_fields.items():
        value, names = getattr(model, name), (*above, name)
        if isinstance(value, BaseModel):
            rows += _walk(value, names, files.get(name, {}), environment)
            continue
        variable = "SLOWWAVE_" + "__".join(names).upper()
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = [variable, *("SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(1, len(names)))]
        origin = next((v for v in variables if v in environment), files.get(name, "default"))
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append(SettingInForce(".".join(names), plain, origin, field.description or ""))
    return rows
