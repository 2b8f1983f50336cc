"""Where each setting's value comes from: the environment, a settings file, or the default."""

import os
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from slowwave.schemas.settings import Settings
from slowwave.schemas.settings_files import find_project_file, find_user_file, load_project_excludes, load_user_settings


@dataclass(frozen=True)
class EffectiveSetting:
    """One setting, its value, and who said so."""

    name: str
    value: Any
    origin: str
    description: str


def list_effective_settings(settings: Settings) -> list[EffectiveSetting]:
    """Return every setting by its dotted name."""
    environment = {name.upper() for name in os.environ}
    return _collect_settings(settings, (), _load_file_origins(), environment)


def _load_file_origins() -> dict[str, Any]:
    """Return the names that files set, nested as in them, each with the files that set it."""
    own = _map_to_path(str(find_user_file()), load_user_settings(Settings))
    if load_project_excludes(Settings):
        read = own.setdefault("read", {})
        read["exclude"] = " and ".join([*([read["exclude"]] if "exclude" in read else []), str(find_project_file())])
    return own


def _map_to_path(path: str, table: dict[str, Any]) -> dict[str, Any]:
    return {name: _map_to_path(path, value) if isinstance(value, dict) else path for name, value in table.items()}


def _collect_settings(
    model: BaseModel, above: tuple[str, ...], files: dict[str, Any], environment: set[str]
) -> list[EffectiveSetting]:
    rows: list[EffectiveSetting] = []
    for name, field in type(model).model_fields.items():
        value, names = getattr(model, name), (*above, name)
        if isinstance(value, BaseModel):
            rows += _collect_settings(value, names, files.get(name, {}), environment)
            continue
        variable = "SLOWWAVE_" + "__".join(names).upper()
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = [variable, *("SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(1, len(names)))]
        origin = next((v for v in variables if v in environment), files.get(name, "default"))
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append(EffectiveSetting(".".join(names), plain, origin, field.description or ""))
    return rows
