"""Content hashes: the same input gives the same id on any machine."""

import hashlib

ID_BYTES = 16
"""128 bits, 32 hex digits: at a billion rows the chance of one collision is under 1e-20."""

SHORT_ID = 12
"""Characters of an id, as it is printed and as `slowwave show` takes it."""

INLINE_ID = 8
"""Characters of a claim's id behind its words in a line of several: a budget of tokens has room for as many words."""


def shorten_id(row_id: str) -> str:
    """Return an id as it is printed: the first SHORT_ID characters of a hash.

    A message that no night has read has no hash but an id SESSION/MESSAGE. It is returned whole, or for a note as its
    session.
    """
    if "/" not in row_id:
        return row_id[:SHORT_ID]
    session, _, _ = row_id.rpartition("/")
    return session if session.startswith("note-") else row_id


def compute_content_id(*parts: str | None) -> str:
    """Return the id of a row, 32 hex digits, from the parts that identify it. None differs from the empty string.

    Framed by length, so ("a", "b") differs from ("ab",).
    """
    digest = hashlib.sha256()
    for part in parts:
        raw = b"\xff" if part is None else part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()[:ID_BYTES].hex()


def compute_claim_id(
    session: str,
    message: str,
    words: str,
) -> str:
    """Return a claim's id, made of what it rests on: a sentence or quote of a message of a session.

    What a reader makes of these words is not part of it, so that what a person says of a claim outlives the reader. How
    the words are spaced does not matter.
    """
    return compute_content_id(session, message, " ".join(words.split()))


def hash_words(workspace: str | None, summary: str) -> str:
    """Return a hash of a claim's workspace and summary.

    The summary's case and the length of its spaces do not matter.
    """
    return compute_content_id(workspace or "", " ".join(summary.casefold().split()))


def compute_tags_id(workspace: str) -> str:
    """Return the id that stands for a workspace in the rows of its tags, so that a forgetting leaves no path there."""
    return compute_content_id("tags", workspace)
