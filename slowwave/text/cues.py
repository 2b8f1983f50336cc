"""What gives away how a sentence is meant: a doubt, an assent, a question, a change. English, in closed lists.

A list that several steps read is here once; where one of them needs more, it adds to it, and says why.
"""

import re

_PERHAPS = (
    r"maybe|might|perhaps|possibly|probably|could|either|options?|alternatively|hypothetical\w*|i guess|i wonder|"
    r"not sure|what if|considering|thinking"
)
YES = r"yes|yep|yeah|yup|ok|okay|sure|agreed|exactly|right|fine|good|great|perfect|nice"
"""How somebody assents; alternatives, for patterns that go on from them."""


def compile_word_pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the alternatives as whole words, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.I)


HEDGES = compile_word_pattern(_PERHAPS)
"""What may be, and is not said to be."""
ASSENTS = re.compile(
    rf"^(?:{YES}|sounds|go ahead|do (?:it|that)|both|alright|deal|accepted|works|makes sense|i like|please do|"
    r"convinced)\b",
    re.I,
)
"""How a message opens that agrees with the one before."""
ASKS = re.compile(r"\?[\"'”’)*_]*\s*$")
"""How a sentence ends that asks."""
QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*\?+")
"""A whole question, to be taken out of a text."""
