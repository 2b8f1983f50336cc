"""Which intentions a prompt names: by its words, and of a topic also by its meaning."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slowwave.context.projects.intentions import PART, Intention
from slowwave.context.projects.nearness import measure_nearness, read_claim_vectors
from slowwave.engines.encoders.protocol import Vectors
from slowwave.recall.release.view import View

Encode = Callable[[str | None, Sequence[str]], Mapping[str, Vectors]]
"""The release's encoder and texts -> their vectors, as `QueryVectors.encode_texts`."""


def find_named(
    view: View,
    intentions: Sequence[Intention],
    prompt: str,
    encode: Encode,
) -> list[Intention]:
    """Return the intentions that a prompt names and that it does not say something of; see `Intention.comes_up`."""
    near = find_near(view=view, intentions=intentions, prompt=prompt, encode=encode)
    return [one for one in intentions if one.comes_up(prompt, near.get(one.text))]


def find_near(
    view: View,
    intentions: Sequence[Intention],
    prompt: str,
    encode: Encode,
) -> dict[str, float]:
    """Return a prompt's nearness to each intention with a topic, by the intention's text; empty without vectors."""
    parts = {
        one.text: [one.text, *PART.findall(one.text)] for one in intentions if one.topic
    }
    if not parts:
        return {}
    texts = [prompt, *(part for own in parts.values() for part in own)]
    vectors = encode(view.release.encoder, texts)
    if not all(text in vectors and vectors[text].any() for text in texts):
        return {}
    found: dict[str, float] = {}
    for one in intentions:
        if one.topic:
            own = np.stack([vectors[part] for part in parts[one.text]])
            said = read_claim_vectors(view, one.workspace or "")
            near = measure_nearness(own, vectors[prompt][np.newaxis], said)
            found |= {} if near is None else {one.text: near}
    return found
