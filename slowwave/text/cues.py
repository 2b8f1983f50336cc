"""What gives away how a sentence is meant: a doubt, or a question. English, in closed lists.

A list that several steps read is here once; where one of them needs more, it adds to it, and says why.
"""

import re


def compile_word_pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the alternatives as whole words, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.I)


HEDGES = compile_word_pattern(
    r"maybe|might|perhaps|possibly|probably|could|either|options?|alternatively|hypothetical\w*|i guess|i wonder|"
    r"not sure|what if|considering|thinking"
)
"""What may be, and is not said to be."""
ASKS = re.compile(r"\?[\"'”’)*_]*\s*$")
"""How a sentence ends that asks."""
QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*\?+")
"""A whole question, to be taken out of a text."""
