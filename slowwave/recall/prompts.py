"""What a prompt asks for, by logistic regressions on its vector and on the letters of its words.

Whether it only acknowledges what was said before it: "Wonderful, thanks!", unlike "no, undo that"
(`data/labelled/replies.tsv`).

Whose words it asks for: "What did you advise on the lease?" an assistant's, "When does my lease end?" a person's, "Why
does the build fail?" anybody's (`data/labelled/answers_asked.tsv`).

Whether it asks for many messages at once, in order or summed up: "What happened with the roof, from first to last?"
(`data/labelled/overviews_asked.tsv`).

Whether it asks the memory something, or only drives the running session ("run the tests", "go on"). A prompt is looked
up if one of these holds; then the floor decides what is relevant enough to show.

- It is likely a question about earlier sessions, in any form ("why did we leave Redis?", "port for staging"). The
  regression was learnt from labelled prompts in six languages (`data/labelled/prompts.tsv`,
  `python -m bench.fit.prompts`), once for each encoder that ships.
- It may be a question, or work on something, and has a word that is rare in this memory and that a session came back
  to: such a word is what that session was about (Church, Empirical estimates of two words, 2000). A word is rare if few
  sessions hold it: at most the square root of their number, and at most half of them.
"""

import io
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from slowwave.engines.encoders.protocol import MULTILINGUAL, find_vector_space
from slowwave.recall.query import Ints, Query, build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import (
    MAX_WORDS,
    find_in_compounds,
    find_passages,
    find_word,
    mask_allowed_passages,
    resolve_workspace,
)
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import CLAUSE

ASKS = 0.3
"""Probability from which a prompt is looked up. A question that is missed gets no answer; an order that passes is most
often below the floor."""
MAY_ASK = 0.05
"""Probability from which a rare word counts: below it a prompt drives the session, whatever words it has."""
SUBJECT = 3
"""Messages of one session that a subject of it is said in, at least."""
MAX_LETTERS = 400
"""Letters of a prompt whose n-grams are counted: what asks is short."""
LONGEST_GRAM = 4
BUCKETS = 4_096
"""Letters of the longest n-gram; numbers that n-grams are hashed to."""
MODEL_FILE = "prompts.npz"
ANSWERS_FILE = "answers.npz"
PERSONS_FILE = "persons.npz"
OVERVIEWS_FILE = "overviews.npz"
REPLIES_FILE = "replies.npz"
OBJECTIONS_FILE = "objections.npz"
ASKS_ANSWER = 0.5
"""Probability from which a query asks for what an assistant said, or for what a person said."""
OVERVIEW = 0.6
"""Probability from which a query asks for many messages at once."""
ASSENTS = 0.7
"""Probability from which a reply only acknowledges. An acknowledgement that is missed costs a few words, an objection
that is lost costs more."""
OBJECTS = 0.25
"""Probability from which a reply objects to what it answers."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PromptModel:
    """A logistic regression: how likely a prompt asks for something."""

    encoder: str
    """The encoder whose vectors `vector` weighs."""
    vector: Floats
    grams: Floats
    bias: float

    def compute_probability(
        self,
        prompt: str,
        vector: Sequence[float] | npt.NDArray[np.floating] | None,
    ) -> float:
        """Return the probability, 0 to 1; without a vector by the letters alone."""
        logit = self.bias + float(self.grams @ hash_grams(prompt))
        if vector is not None:
            logit += float(self.vector @ np.asarray(vector, dtype=np.float64))
        return 1 / (1 + math.exp(-logit))

    def reads_vectors_of(self, encoder: str | None) -> bool:
        """Return True if the model was fitted to the vectors of an encoder, in 32 or in 8 bits."""
        return encoder is not None and find_vector_space(encoder) == self.encoder


READ_IN_ANY_LANGUAGE = (MODEL_FILE, ANSWERS_FILE, PERSONS_FILE)
"""Files of the models that were learnt from the vectors of the multilingual encoder too."""


@cache
def load_prompt_model(
    name: str = MODEL_FILE, encoder: str | None = None
) -> PromptModel:
    """Return a model that ships, by the name of its file.

    Args:
        name: the file of the default encoder.
        encoder: the encoder of the release. If no model was learnt from its vectors, the default encoder's is returned,
            which then judges by letters alone.
    """
    file = name_model_file(name, encoder or "")
    raw = files("slowwave.recall").joinpath(file).read_bytes()
    with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
        vector = kept["vector"].astype(np.float64)
        grams = kept["grams"].astype(np.float64)
        return PromptModel(
            encoder=str(kept["encoder"]),
            vector=vector,
            grams=grams,
            bias=float(kept["bias"]),
        )


def name_model_file(name: str, encoder: str) -> str:
    """Return the file of a model for an encoder: `prompts.multilingual.npz`, or the default encoder's `prompts.npz`."""
    has_own = encoder == MULTILINGUAL and name in READ_IN_ANY_LANGUAGE
    return name.replace(".npz", f".{encoder}.npz") if has_own else name


def only_assents(reply: str) -> bool:
    """Return True if a reply likely only acknowledges, by its letters."""
    model = load_prompt_model(REPLIES_FILE)
    has_figure = any(character.isdigit() for character in reply)
    return not has_figure and model.compute_probability(reply, None) >= ASSENTS


def is_objection(reply: str) -> bool:
    """Return True if a reply likely objects to what it answers, by the letters of its first clause."""
    model = load_prompt_model(OBJECTIONS_FILE)
    return model.compute_probability(take_first_clause(reply), None) >= OBJECTS


def take_first_clause(text: str) -> str:
    """Return the first clause of a text's first line; the text if it has none."""
    found = CLAUSE.search(text)
    return found[0].partition("\n")[0] if found else text


def hash_grams(prompt: str) -> Floats:
    """Return the n-grams of letters within a prompt's words, hashed to BUCKETS numbers: square roots of counts, of
    length 1.
    """
    counts = np.zeros(BUCKETS, dtype=np.float64)
    for word in prompt[:MAX_LETTERS].casefold().split():
        padded = f" {word} "
        for length in range(1, LONGEST_GRAM + 1):
            for start in range(len(padded) - length + 1):
                gram = padded[start : start + length].encode("utf-8", "replace")
                counts[zlib.crc32(gram) % BUCKETS] += 1
    roots = np.sqrt(counts)
    return roots / (float(np.linalg.norm(roots)) or 1.0)


def has_subject(view: View, prompt: str, workspace: str | None = None) -> bool:
    """Return True if a prompt has a rare word that a session of the workspace came back to.

    Args:
        view: the release. Words are rare or not in all of it.
        prompt: with at least one word.
        workspace: where the session must have been; None for anywhere.
    """
    query = build_query(prompt, 1, ("message",), workspace=workspace)
    allowed = mask_allowed_passages(view, resolve_workspace(view, query))
    layout = view.passages
    sessions = int(layout.session.max(initial=-1)) + 1
    few = min(math.sqrt(sessions), sessions / 2)
    for positions in _find_words(view, replace(query, workspace=None, places=())):
        if len(np.unique(layout.session[positions])) <= few:
            here = positions[allowed[positions]]
            said = np.unique(
                np.column_stack([layout.session[here], layout.message[here]]), axis=0
            )
            if np.bincount(said[:, 0]).max(initial=0) >= SUBJECT:
                return True
    return False


def _find_words(view: View, query: Query) -> Iterator[Ints]:
    """Yield for each content word of a query the positions of the passages that hold it."""
    passages = find_passages(view, query)
    content = set(query.content_words)
    try:
        known = (
            [word for word in query.index_terms if word in content]
            if view.has_full_text(PASSAGES)
            else []
        )
        for word in known[:MAX_WORDS]:
            said, _ = find_word(passages, word, query.language)
            joined, _ = find_in_compounds(passages, word, query.language)
            yield np.concatenate([said, joined])
    except READ_TROUBLE:  # the answer reports it
        pass
