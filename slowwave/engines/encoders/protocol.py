"""The Encoder protocol: texts in, unit vectors out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dim), rows of unit length."""


SERVER = "openai:"
"""What the setting begins with where a server makes the vectors: `openai:MODEL@URL`."""


def hide_url(setting: str) -> str:
    """Return what a release keeps of the setting: of a server its model alone, so that no store sends queries away."""
    return compute_encoder_name(setting) if setting.startswith(SERVER) else setting


def compute_encoder_name(setting: str) -> str:
    """Return the name that ids know what `encoder` names by: no folder, no organisation, no URL."""
    if setting.startswith(SERVER):
        return split_server(setting)[0]
    return Path(setting).name


def split_server(setting: str) -> tuple[str, str]:
    """Return model and base URL of `openai:MODEL@URL`; the URL may hold a name and a password, the model no URL."""
    model, at, rest = setting.removeprefix(SERVER).partition("@http")
    return model, f"http{rest}" if at and rest.startswith(("://", "s://")) else ""


class Encoder(Protocol):
    """Turns texts into unit vectors. `name` tells two models apart in every id that depends on vectors."""

    name: str
    dim: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 row of unit length a text, in order; shape (len(texts), dim)."""
        ...
