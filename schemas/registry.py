"""Every table there is, by name. Released tables are pinned together; the others are ledgers and caches."""

from schemas.boilerplate import BOILERPLATE, LINES
from schemas.completions import COMPLETIONS
from schemas.gists import GISTS
from schemas.marks import MARKS
from schemas.messages import MESSAGES
from schemas.observations import MERGES, OBSERVATIONS
from schemas.passages import PASSAGES
from schemas.prototypes import PROTOTYPE_MEMBERS, PROTOTYPES
from schemas.quarantine import QUARANTINE
from schemas.runs import RELEASES, RUNS
from schemas.sessions import FILES, SESSIONS
from schemas.table import Table
from schemas.topics import SUMMARIES, TOPIC_HISTORY, TOPICS
from schemas.vectors import VECTORS

RELEASED: tuple[Table, ...] = (
    MESSAGES,
    SESSIONS,
    FILES,
    QUARANTINE,
    PASSAGES,
    BOILERPLATE,
    GISTS,
    OBSERVATIONS,
    MERGES,
    TOPICS,
    TOPIC_HISTORY,
    SUMMARIES,
    PROTOTYPES,
    PROTOTYPE_MEMBERS,
)
LEDGERS: tuple[Table, ...] = (MARKS, VECTORS, LINES, COMPLETIONS, RUNS, RELEASES)

TABLES: dict[str, Table] = {t.name: t for t in (*RELEASED, *LEDGERS)}
