"""Find the lines that are the same but for their figures, as a log repeats them.

A word with a digit counts as a figure, in any language: a time, an address, a version or an id. The cost is linear.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

FIGURE = re.compile(r"(?<![\w.:/-])[A-Za-z_.:/-]*+\d[\w.:/-]*+", re.A)
"""A word with a digit."""


def hide_figures(line: str) -> str:
    """Return a line with a zero for each of its figures, without white space at its ends."""
    return FIGURE.sub("0", line.strip())


def find_repeated_parts(
    texts: Sequence[str],
    owners: Sequence[str],
) -> dict[int, list[int]]:
    """Return the texts of which each line stands in an earlier text of the same owner, but for its figures.

    The value has for each line the index of the first text with that line, which has a new line and so isn't a key.

    Args:
        texts: the parts of one or more messages, those of each message in order.
        owners: the id of each text's message.
    """
    seen = defaultdict[str, dict[str, int]](dict)
    repeated = dict[int, list[int]]()
    for row, (text, owner) in enumerate(zip(texts, owners, strict=True)):
        known = seen[owner]
        lines = [form for line in text.split("\n") if (form := hide_figures(line))]
        if lines and all(line in known for line in lines):
            repeated[row] = [known[line] for line in lines]
        else:
            for line in lines:
                known.setdefault(line, row)
    return repeated
