"""Messages as what was done in them: rows of ACTIONS, one for each file, command or search of a tool call."""

import polars as pl
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import ACTIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.habits.calls import read_call

COLUMNS = ["message_id", "session_id", "seq", "origin", "text", "blocks", "ts"]
"""Of MESSAGES, what is read."""


def find_actions(messages: pa.Table, sessions: pa.Table, step_key: str) -> pa.Table:
    """Return rows of ACTIONS, in order of session and place.

    Args:
        messages: COLUMNS of whole sessions.
        sessions: session_id, workspace and inactive of those sessions; what was taken back does nothing.
        step_key: of the step.
    """
    # messages that stand, each with the turn of the person that it is in
    about = pl.DataFrame(sessions).select("session_id", "workspace", "inactive")
    gone = about.explode("inactive", empty_as_null=True)["inactive"].drop_nulls()
    live = pl.DataFrame(messages).filter(~pl.col("message_id").is_in(gone.implode())).sort("session_id", "seq")
    said = (pl.col("origin") == Origin.HUMAN) & (pl.col("text") != "")
    live = live.with_columns(said.cum_sum().over("session_id").cast(pl.Int64).alias("turn"))
    # their tool calls, and whether each failed
    blocks = live.select("message_id", "session_id", "seq", "turn", "ts", "blocks").explode("blocks")
    blocks = blocks.filter(pl.col("blocks").is_not_null()).unnest("blocks")
    calls = blocks.filter((pl.col("type") == "tool_call") & pl.col("name").is_not_null())
    if not calls.height:
        return ACTIONS.make_empty_table()
    results = blocks.filter((pl.col("type") == "tool_result") & pl.col("call_id").is_not_null())
    told = results.group_by("session_id", "call_id").agg(pl.col("is_error").drop_nulls().last().alias("failed"))
    calls = calls.join(told, on=["session_id", "call_id"], how="left", maintain_order="left")
    calls = calls.join(about.drop("inactive"), on="session_id", how="left", maintain_order="left")
    # a call may do several things
    rows = []
    parts: dict[str, int] = {}
    for call in calls.iter_rows(named=True):
        for action in read_call(call["name"], call["text"] or "", call["failed"], call["workspace"]):
            part = parts[call["message_id"]] = parts.get(call["message_id"], -1) + 1
            rows.append(
                {
                    **{name: call[name] for name in ("message_id", "session_id", "workspace", "turn", "seq")},
                    **vars(action),
                    "action_id": compute_content_id(call["message_id"], str(part)),
                    "part": part,
                    "at": call["ts"],
                    "tool": call["name"],
                    "step_key": step_key,
                }
            )
    return pa.Table.from_pylist(rows, schema=ACTIONS.schema)
