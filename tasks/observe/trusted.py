"""Give claims the trust of their words (`tasks/trust.py`)."""

from collections.abc import Mapping

import pyarrow as pa

from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import TRUST
from slowwave.schemas.vocabulary import OWN, Trust, find_least_trust
from slowwave.tasks.trust import UNKNOWN, MessageTrust

RULING = ("decision", "convention")
"""Categories that say what was decided, and the category that such a claim gets if nobody here decided it."""
TOLD_AS = "context"
READ = (Trust.TOOL, Trust.OUTSIDE)
"""Classes of words that nobody in the session said: what they say is read, and not decided."""


def weigh_claims(
    claims: pa.Table,
    texts: Mapping[str, str],
    trust: Mapping[str, MessageTrust],
) -> pa.Table:
    """Return claims with the column `trust`; those that were only read are not decisions or conventions.

    The message that a claim quotes decides. A model may have written a claim of others that it cites too: then these
    count, unless they are the person's or the agent's.

    Args:
        claims: columns `message_ids`, `quote` and `category`.
        texts: the messages' texts by id.
        trust: where their words come from, by id.
    """
    rows = claims.select(["message_ids", "quote", "category"]).to_pylist()
    classes = [_weigh_claim(row, texts, trust) for row in rows]
    categories = [
        TOLD_AS if found in READ and row["category"] in RULING else row["category"]
        for row, found in zip(rows, classes, strict=True)
    ]
    at = claims.schema.get_field_index("category")
    weighed = claims.set_column(
        at, claims.schema.field(at), pa.array(categories, pa.string())
    )
    return weighed.append_column(TRUST, pa.array(map(str, classes), pa.string()))


def _weigh_claim(
    row: ClaimRow,
    texts: Mapping[str, str],
    trust: Mapping[str, MessageTrust],
) -> Trust:
    """Return the least trust of what a claim rests on."""
    quoted, *others = row["message_ids"]
    own = trust.get(quoted, UNKNOWN).find_least_of(row["quote"], texts.get(quoted, ""))
    cited = (trust.get(key, UNKNOWN).own for key in others)
    return find_least_trust([own, *(found for found in cited if found not in OWN)])
