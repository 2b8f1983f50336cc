"""Where each setting's value comes from: the environment, the settings file, or the default."""

import os
import tomllib
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from schemas.settings import Settings, config_file


@dataclass(frozen=True)
class SettingInForce:
    """One setting, its value, and who said so."""

    name: str
    value: Any
    origin: str
    description: str


def settings_in_force(settings: Settings) -> list[SettingInForce]:
    """Every setting by its dotted name."""
    path = config_file()
    file = tomllib.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
    environment = {name.upper() for name in os.environ}
    return _walk(settings, (), file, environment, str(path))


def _walk(
    model: BaseModel, above: tuple[str, ...], file: dict[str, Any], environment: set[str], path: str
) -> list[SettingInForce]:
    rows: list[SettingInForce] = []
    for name, field in type(model).model_fields.items():
        value, names = getattr(model, name), (*above, name)
        if isinstance(value, BaseModel):
            rows += _walk(value, names, file.get(name, {}), environment, path)
            continue
        variable = "SLOWWAVE_" + "__".join(names).upper()
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = [variable, *("SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(1, len(names)))]
        origin = next((v for v in variables if v in environment), path if name in file else "default")
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append(SettingInForce(".".join(names), plain, origin, field.description or ""))
    return rows
