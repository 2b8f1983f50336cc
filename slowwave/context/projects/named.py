"""Which intentions a prompt names: by its words, and of a topic also by its meaning.

A prompt is near to a topic if it is much more like it than what the project mostly says: all German texts are alike to
an English encoder, so that no likeness by itself tells anything.
"""

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from slowwave.context.projects.intentions import PART, Intention
from slowwave.engines.encoders.protocol import Vectors
from slowwave.recall.release.view import View
from slowwave.schemas.tables import CLAIMS

MOST_CLAIMS = 500
"""Most claims of a project that a prompt is compared with."""
FEWEST_CLAIMS = 10
"""Fewest claims from which it is known how like the project's texts are to each other."""
Encode = Callable[[str | None, Sequence[str]], Mapping[str, "Vectors"]]
"""The release's encoder and texts -> their vectors, as `QueryVectors.encode_texts`."""

_KEPT: WeakKeyDictionary[View, dict[str, Vectors]] = WeakKeyDictionary()


def find_named(
    view: View,
    intentions: Sequence[Intention],
    prompt: str,
    encode: Encode,
) -> list[Intention]:
    """Return the intentions that a prompt names and that it does not say something of; see `Intention.comes_up`."""
    near = measure_nearness(view, intentions, prompt, encode)
    return [one for one in intentions if one.comes_up(prompt, near.get(one.text))]


def measure_nearness(
    view: View,
    intentions: Sequence[Intention],
    prompt: str,
    encode: Encode,
) -> dict[str, float]:
    """Return how near a prompt is to each intention that waits for a topic, by its text: in standard deviations of its
    likeness to the project's claims. Return none without vectors, or with too few claims.
    """
    parts = {one.text: _list_parts(one.text) for one in intentions if one.topic}
    if not parts:
        return {}
    texts = [prompt, *(part for own in parts.values() for part in own)]
    vectors = encode(view.release.encoder, texts)
    if not all(text in vectors and vectors[text].any() for text in texts):
        return {}
    found: dict[str, float] = {}
    for one in intentions:
        said = _read_vectors(view, one.workspace or "")
        if one.topic and len(said) >= FEWEST_CLAIMS:
            own = np.stack([vectors[part] for part in parts[one.text]])
            usual = (said @ own.T).max(axis=1)
            likeness = float((own @ vectors[prompt]).max())
            found[one.text] = (likeness - float(usual.mean())) / float(usual.std())
    return found


def _list_parts(text: str) -> list[str]:
    """Return a text and the parts of it."""
    return [text, *PART.findall(text)]


def _read_vectors(view: View, workspace: str) -> Vectors:
    """Return the vectors of a project's latest claims, shape (claims, dim); they are kept while the release is open."""
    kept = _KEPT.setdefault(view, {})
    if workspace not in kept:
        here = pc.field("workspace") == workspace
        rows = view.read(CLAIMS, ["observed_at", "vector"], here)
        rows = rows.filter(pc.is_valid(rows["vector"])).sort_by(
            [("observed_at", "descending")]
        )
        vectors = rows["vector"].slice(0, MOST_CLAIMS).to_pylist()
        kept[workspace] = np.asarray(vectors, dtype=np.float32).reshape(
            len(vectors), -1
        )
    return kept[workspace]
