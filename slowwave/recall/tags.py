"""What a session is called in a heading: as much of its id as tells it from all others of the store."""

from collections.abc import Mapping

from schemas.sessions import SESSIONS
from slowwave.recall.rendering import short_ids
from slowwave.recall.view import View


def session_tags(view: View) -> Mapping[str, str]:
    """Each session's own id -> its tag, which `slowwave show` takes; made once a release (50 ms for 20,000)."""
    return view.once("session tags", lambda: short_ids(view.read(SESSIONS, ["native_id"])["native_id"].to_pylist()))
