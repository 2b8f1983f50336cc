"""Statements that came by the web, tools, mails, sub-agents and other memories are found, marked, and rule nothing."""

from pathlib import Path

from bench.nights.trust import measure


def test_what_others_said_is_marked_and_no_rule(tmp_path: Path) -> None:
    rows = measure(scratch=tmp_path, each=4).rows
    planted = {str(row["channel"]): row for row in rows[:-1]}
    assert [*planted] == ["web", "tool", "mail", "sub-agent", "imported"]
    for row in planted.values():
        told = (row["rules"], row["files"], row["briefing"], row["unmarked"])
        assert told == (0, 0, 0, 0)
        assert row["blocks"] >= 4  # it is found all the same
    # what a person typed in two sessions is a rule, and no block marks it
    own = rows[-1]
    assert (own["rules"], own["briefing"], own["rank"]) == (4, 4, 1)
    assert own["unmarked"] == own["blocks"]
