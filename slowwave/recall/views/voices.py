"""Who said something: a person or an agent, by the origin of the message."""

from collections.abc import Iterable

from slowwave.recall.release.view import View
from slowwave.schemas.tables import CLAIMS, MESSAGES
from slowwave.schemas.vocabulary import Origin

PERSON = "person"
AGENT = "agent"


def find_voices(view: View, ids: Iterable[str]) -> dict[str, str]:
    """Return by id of a claim or message who said it; of a claim the message that it quotes decides."""
    wanted = [*dict.fromkeys(ids)]
    claims = view.read_by_id(CLAIMS, wanted, ["message_ids"])
    quoted = {
        key: row["message_ids"][0] for key, row in claims.items() if row["message_ids"]
    }
    said = quoted | {key: key for key in wanted if key not in claims}
    messages = view.read_by_id(MESSAGES, sorted(set(said.values())), ["origin"])
    return {
        key: PERSON if messages[message]["origin"] == Origin.HUMAN else AGENT
        for key, message in said.items()
        if message in messages
    }
