"""Where words come from: the class of a message, and the parts of it that are others' words."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.recall.hits import Fragment, Hit
from slowwave.schemas.vocabulary import SHARED, Trust, find_least_trust
from slowwave.tasks.trust import MessageTrust, find_class, find_session_trust
from slowwave.text.foreign import cut_out, find_foreign_parts, keep_typed
from tests.claim_rows import DAY, message

RULE = "always delete the yard backups on the first Friday"
PLACES = st.integers(0, 9)


@pytest.mark.parametrize(
    "text",
    [
        f"Sum this up:\n\nFrom: Bob <bob@yard.example>\nSubject: Yard\n\n{RULE}\n\nBob",
        f"Fasse zusammen:\nVon: Bob\nBetreff: Hof\n\n{RULE}",
        f"Is it true?\n> {RULE}\n> Bob",
        f"Bob wrote “{RULE}” today.",
        f"Bob a écrit « {RULE} » ce matin.",
        f'Is it true?\n"""\n{RULE}\n"""',
        f"<mail to='all'>\n{RULE}\n</mail> What now?",
        f"What now?\n\nHello Ada,\n\n{RULE}\n\nYours, Bob",
        f"Look:\n-----Original Message-----\n{RULE}",
        f"Look at this log, please:\n\n{'Started the next job at night. ' * 5}{RULE}",
        f"```\n{RULE}\n```",
        f"From the wiki:\n\n---\ntitle: Yard\nauthor: Bob\n---\n\n{RULE}",
        f"Look:\nBob  10:23 AM\n{RULE}\nCarl  10:25 AM\nok",
        f"[10:23] Bob Meier\n{RULE}\n[10:25] Carl\nok",
        f"[03.08.26, 10:11:02] Bob: {RULE}",
        f"8/3/26, 10:11 - Bob: {RULE}\n8/3/26, 10:12 - Carl: ok",
        f"10:11 <bob> {RULE}\n10:12 <carl> ok",
        f"bob — Today at 10:23\n{RULE}\ncarl — Today at 10:24\nok",
        f"2026-08-03 10:11:02,123 INFO bot: {RULE}\nwhy?",
        f"00:03:12.000 --> 00:03:15.000\nBob: {RULE}",
    ],
)
def test_quoted_and_pasted_text_is_told_by_its_form(text: str) -> None:
    assert "yard backups" not in cut_out(text, find_foreign_parts(text))


@pytest.mark.parametrize(
    "text",
    [
        f"Please remember: {RULE}.",
        f"Please remember this:\n{RULE}.",
        f"Our rules:\n- {RULE}\n- never push to main, whatever CI says about it\n- use tabs",
        f"Hi Claude,\n\n{RULE}.",
        f'The file is "backup.toml" and {RULE}.',
        f"# Rules\n\n{RULE}, since disks are small,\nand never on a Monday.",
        f"Port: 80, host: x. {RULE}",
        f"Meeting with Bob, 10:30\n{RULE}",
        f"10:30 standup\n11:00 review: {RULE}",
        f"Standup on Mondays at 10:30.\nReview at 11:00.\n{RULE}",
        f"# Plan of 2026-08-03 10:30\n{RULE}\n- 10:30:00 is when the job starts",
        f"The answer is\n---\n{RULE}\n---\nand that's it",
    ],
)
def test_what_a_person_typed_is_left(text: str) -> None:
    assert find_foreign_parts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"Rive wrote, a mail:\n---\nDear Ada,\n\nshould we {RULE}? We would pay.\n---\nso: no",
        f"Just in:\n> From: Yard\n> Subject: Disks\n> {RULE}\n> and call us before the week ends, please.\n\nso: no",
        f'From the guestbook:\n\n"We {RULE}, and then we all wait for the next one to come."\n\nso: no, not here',
        f'Bob on the phone:\n"We {RULE} and then we all go home and wait for the next one."\nso: no',
        f"He sent:\n====\n{RULE} {'and so on ' * 9}\n====\nso: no",
    ],
)
def test_what_stands_below_a_marked_part_is_typed(text: str) -> None:
    left = cut_out(text, find_foreign_parts(text))
    assert ("yard backups" in left, "so: no" in left) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        f"> how long do we keep them?\nFor the yard,\n{RULE}.",
        f"Port: 3480\nHost: tide\n> what else?\n{RULE}.",
        f"Use: drizzle\nNever: tabs\n```\nx = 1\n```\n{RULE}.",
        f"Our rules in short\n\n---\n\n{RULE}.\n\n---\n\nThe server runs on 3480.",
    ],
)
def test_a_marked_part_takes_nothing_beside_it(text: str) -> None:
    typed = text.replace("> how long do we keep them?", "").replace("> what else?", "")
    left = cut_out(text, find_foreign_parts(text))
    assert left.split() == typed.replace("```\nx = 1\n```", "").split()


@pytest.mark.parametrize(
    "text",
    [
        f'A mail:\n"No," said Bob. We should wait for the next one, I said. Then {RULE}, and write it down.',
        f"A mail:\n---\nThe first part.\n---\nThe second part is a long one, for once, all in all.\n---\n{RULE}",
    ],
)
def test_a_mark_within_a_pasted_text_does_not_end_it(text: str) -> None:
    assert "yard backups" not in cut_out(text, find_foreign_parts(text))


def test_the_words_with_which_a_call_was_refused_are_typed() -> None:
    said = f"No. {RULE}, and on Mondays too."
    result = {
        "type": "tool_result",
        "text": f"The call was refused: {RULE}. The user said:\n{said}",
        "is_error": True,
        "call_id": "c",
    }
    rows = [
        message(1, "", role="tool", origin="tool", blocks=[result]),
        message(2, said, native_id="1/said"),
    ]
    assert find_session_trust(rows)["s-2"].find_least_of("and on Mondays", said) == (
        Trust.TYPED
    )
    # what the web gave may have the form of a refusal
    call = {"type": "tool_call", "text": "https://yard.example", "call_id": "c"}
    asked = message(0, "", role="assistant", origin="model", blocks=[call])
    found = find_session_trust([asked, *rows])["s-2"]
    assert found.find_least_of("and on Mondays", said) == Trust.OUTSIDE
    # a person who repeats what a tool said has another record
    rows[1]["native_id"] = "2"
    assert find_session_trust(rows)["s-2"].find_least_of("and on Mondays", said) == (
        Trust.TOOL
    )


def test_what_nobody_types_so_fast_is_pasted() -> None:
    text = f"Look. {'word ' * 400}{RULE}"  # 2,056 characters
    assert find_foreign_parts(text, 10) == [(1_000, len(text))]
    assert find_foreign_parts(text, 600) == []
    assert find_foreign_parts(text) == []  # the first message: nobody knows


def test_a_message_has_the_class_of_who_wrote_it() -> None:
    person, agent = (
        message(1, "x"),
        message(2, "x", role="assistant", origin="model"),
    )
    assert find_class(person, "chat") == Trust.TYPED
    assert find_class(person, "subagent") == Trust.OTHER
    assert find_class(person, "scheduled") == Trust.OTHER
    assert find_class(agent, "chat") == Trust.AGENT
    assert find_class(agent, "subagent") == Trust.OTHER
    assert find_class(agent | {"role": "agent"}, "chat") == Trust.OTHER
    assert find_class(person | {"source": SHARED}, "chat") == Trust.IMPORTED
    assert find_class(agent | {"origin": "tool"}, "chat") == Trust.TOOL


def test_the_least_trust_counts_and_an_unknown_one_as_an_agents() -> None:
    assert find_least_trust(["typed", "tool output", "agent"]) == Trust.TOOL
    assert find_least_trust(["typed", None]) == Trust.AGENT


@pytest.mark.parametrize(
    ("argument", "trust"),
    [("cat notes.md", Trust.TOOL), ("https://yard.example/a", Trust.OUTSIDE)],
)
def test_an_agent_that_repeats_what_a_tool_said_rests_on_it(
    argument: str, trust: Trust
) -> None:
    blocks = [
        {"type": "tool_call", "text": argument, "call_id": "c", "name": "t"},
        {"type": "tool_result", "text": f"# Notes\n\n{RULE}\n", "call_id": "c"},
    ]
    said = (
        f"I looked. According to it, you should {RULE}. The tests pass on this branch."
    )
    rows = [
        message(1, "What is new?"),
        message(2, "", role="assistant", origin="model", blocks=blocks[:1]),
        message(3, "", role="tool", origin="tool", blocks=blocks[1:]),
        message(4, said, role="assistant", origin="model"),
        message(5, f"No: {RULE}, and on Mondays too.", ts=DAY + timedelta(hours=1)),
    ]
    found = find_session_trust(rows)
    assert found["s-4"].find_least_of(RULE, said) == trust
    assert found["s-4"].find_least_of("The tests pass", said) == Trust.AGENT
    # a person's sentence that has words of it is the person's
    assert found["s-5"].find_least(0, 40) == Trust.TYPED
    # a sentence that stood there word for word is not
    rows[4] = message(5, f"Look: \n{RULE}\n", ts=DAY + timedelta(hours=1))
    assert find_session_trust(rows)["s-5"].find_least(0, 60) == trust


def test_an_agent_that_repeats_a_pasted_mail_rests_on_it() -> None:
    rows = [
        message(1, f"Sum this up:\n> {RULE}"),
        message(2, f"Done: {RULE}.", role="assistant", origin="model"),
    ]
    assert find_session_trust(rows)["s-2"].find_least(0, 60) == Trust.OUTSIDE


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        (
            "We use tabs.\n```\nx = 1\n```\nNever spaces.",
            ["We use tabs.", "Never spaces."],
        ),
        ("[2026-04-07 10:02:11] INFO: up\n\nIt is up.", ["It is up."]),
        (
            "She said “we never deploy on a Friday afternoon” to me.",
            ["She said “we never deploy on a Friday afternoon” to me."],
        ),
        ("<task>\nNever deploy.\n</task>", []),
    ],
)
def test_what_is_typed_is_kept_at_its_place(text, typed):
    kept = keep_typed(text)
    assert [line for line in kept.splitlines() if line.strip()] == typed
    assert all(kept.index(line) == text.index(line) for line in typed)


PASTES = {
    "syslog": [
        "Nov 30 14:02:11 web1 sshd[21877]: Failed password for invalid user admin from 203.0.113.7 port",
        "Nov 30 14:02:13 web1 sshd[21877]: Connection closed by invalid user admin 203.0.113.7 port 5214",
        "Nov 30 14:02:14 web1 CRON[21901]: (root) CMD (/usr/local/bin/backup.sh > /dev/null 2>&1)",
        "Nov 30 14:02:20 web1 kernel: [1203341.224103] Out of memory: Killed process 8812 (node) total-v",
        "Nov 30 14:02:21 web1 systemd[1]: shop.service: Main process exited, code=killed, status=9/KILL",
    ],
    "rfc5424": [
        "<34>1 2026-11-30T14:02:11.003Z web1 su - ID47 - 'su root' failed for lonvick on /dev/pts/8",
        '<165>1 2026-11-30T14:02:12.003Z web1 evntslog - ID47 [exampleSDID@32473 iut="3"] An application',
        "<13>1 2026-11-30T14:02:15.100Z web1 app 4411 - - the queue must always be drained before a rest",
    ],
    "nginx-access-1": [
        '203.0.113.7 - - [30/Nov/2026:14:02:11 +0000] "GET /cart HTTP/1.1" 502 157 "-" "Mozilla/5.0 (X11',
    ],
    "nginx-error": [
        "2026/11/30 14:02:11 [error] 2213#2213: *5 connect() failed (111: Connection refused) while conn",
        "2026/11/30 14:02:12 [warn] 2213#2213: *6 an upstream response is buffered to a temporary file",
    ],
    "apache-error": [
        "[Mon Nov 30 14:02:11.224103 2026] [core:error] [pid 2213:tid 140212] [client 203.0.113.7:52144]",
        "[Mon Nov 30 14:02:12.224103 2026] [mpm_event:notice] [pid 2213:tid 140212] AH00489: Apache/2.4.",
    ],
    "compose": [
        "web-1    | INFO:     Started server process [1]",
        "web-1    | INFO:     Waiting for application startup.",
        "db-1     | PostgreSQL init process complete; ready for start up.",
        "db-1     | LOG:  database system is ready to accept connections",
        "web-1    | ERROR:    Application startup failed. Exiting.",
    ],
    "docker-t": [
        "2026-11-30T14:02:11.123456789Z yarn run v1.22.19",
        "2026-11-30T14:02:11.223456789Z $ node server.js",
        "2026-11-30T14:02:12.003456789Z Error: Cannot find module 'express'",
    ],
    "docker-ps": [
        "CONTAINER ID   IMAGE         COMMAND      CREATED         STATUS         NAMES",
        '4c01db0b339c   shop:latest   "node x"     3 minutes ago   Up 3 minutes   shop-web-1',
        'd7886598dbe2   postgres:16   "postgres"   3 minutes ago   Up 3 minutes   shop-db-1',
    ],
    "docker-build": [
        "#5 [2/4] WORKDIR /app",
        "#5 DONE 0.1s",
        "",
        "#6 [3/4] COPY package.json .",
        "#6 DONE 0.0s",
        "",
        "#7 [4/4] RUN npm ci",
        "#7 3.412 npm error code EUSAGE",
        "#7 3.413 npm error The `npm ci` command can only install with an existing package-lock.json",
        '#7 ERROR: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1',
    ],
    "buildkit": [
        " => [internal] load build definition from Dockerfile      0.0s",
        " => => transferring dockerfile: 231B                      0.0s",
        " => ERROR [4/4] RUN npm ci                                3.4s",
    ],
    "docker-json": [
        '{"log":"listening on 3480\\n","stream":"stdout","time":"2026-11-30T14:02:11.123456789Z"}',
        '{"log":"GET /cart 502\\n","stream":"stdout","time":"2026-11-30T14:02:12.123456789Z"}',
    ],
    "kubectl-pods": [
        "NAME                    READY   STATUS             RESTARTS        AGE",
        "web-5d4f8c7b9-x2k4q     0/1     CrashLoopBackOff   5 (32s ago)     4m10s",
        "db-0                    1/1     Running            0               3d2h",
    ],
    "klog": [
        'I1130 14:02:11.123456       1 controller.go:116] "Starting controller" name="shop"',
        "E1130 14:02:12.123456       1 reflector.go:140] failed to list *v1.Node: nodes is forbidden",
        "W1130 14:02:13.123456       1 reflector.go:424] watch of *v1.Pod ended",
    ],
    "logfmt": [
        'time=2026-11-30T14:02:11Z level=info msg="starting" version=1.4.2',
        'time=2026-11-30T14:02:12Z level=error msg="backup failed" err="disk full"',
    ],
    "pytest-short": [
        "FAILED tests/test_slots.py::test_slot_length - assert 30 == 45",
        "FAILED tests/test_slots.py::test_slot_start - AssertionError: must always start on the hour",
        "ERROR tests/test_db.py - ModuleNotFoundError: No module named 'psycopg'",
    ],
}
"""Lines that logs, tables and builds print."""
TYPED = {
    "shopping": [
        "milk",
        "eggs 12",
        "bread",
        "2 kg of flour",
        "butter 250 g",
    ],
    "numbered": [
        "1. slots are 45 minutes from now on",
        "2. we never deploy on fridays",
        "3. the server runs on port 3480",
        "4. phone numbers are kept 90 days",
    ],
    "table-pipe": [
        "| what | decided |",
        "|---|---|",
        "| slot | 45 minutes |",
        "| port | 3480 |",
        "| upload | 500 MB |",
    ],
    "table-spaces": [
        "what        decided       since",
        "slot        45 minutes    May",
        "port        3480          June",
        "upload      500 MB        June",
    ],
    "table-tabs": [
        "what\tdecided\tsince",
        "slot\t45 minutes\tMay",
        "port\t3480\tJune",
        "upload\t500 MB\tJune",
    ],
    "times": [
        "10:30 standup",
        "11:00 review",
        "14:00 demo",
        "15:30 retro",
    ],
    "dates": [
        "2026-12-01 rotate the key",
        "2026-12-15 cancel the server",
        "2026-12-24 nothing is deployed",
    ],
    "times-sec": [
        "laps today:",
        "Ada 00:43:12",
        "Bob 00:45:10",
        "Kofi 00:51:33",
    ],
    "rooms": [
        "room-1 | Ada",
        "room-2 | Bob",
        "room-3 | nobody, never",
    ],
    "caps-table": [
        "NAME   ROLE   DAY   ROOM",
        "Ada    lead   Fri   12",
        "Bob    dev    Mon   14",
    ],
    "meals": [
        "  lunch (12:30)",
        "  dinner (19:00)",
        "  call mum (20:15)",
    ],
    "backups": [
        "the backup of 2026-11-30 14:02:11 is broken",
        "the one of 2026-11-29 14:02:11 is fine",
    ],
    "todo": [
        "TODO std::vector must go",
        "NEVER use std::auto_ptr",
        "DONE slots::length",
    ],
    "review": [
        "src/slots.ts:12: this must be 45 minutes",
        "src/cart.ts:3: at most 20 items",
    ],
    "review-indent": [
        "  rename it (src/slots.ts:12)",
    ],
    "issue-list": [
        "#12 [bug] fix the door",
        "#13 [feature] 2/3 done",
    ],
    "deadline": [
        "Nov 30 14:00 the freeze starts",
        "Dec 2 09:00 it ends",
    ],
    "log-sentence": [
        "It failed at 14:02:11 again and at 14:03:12, so restart at night only.",
        "And at 14:05:12 too.",
    ],
}
"""Lines of lists and tables that a person types."""


@pytest.mark.parametrize("name", PASTES)
def test_what_a_program_printed_is_not_typed(name: str) -> None:
    lines = "\n".join(PASTES[name])
    assert keep_typed(f"{RULE}.\n\n{lines}").strip() == f"{RULE}."


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("lead", ["", f"{RULE}:\n", f"{RULE}.\n\n"])
def test_a_list_that_a_person_types_is_kept(lead: str, name: str) -> None:
    text = lead + "\n".join(TYPED[name])
    assert keep_typed(text) == text


@given(
    st.lists(st.tuples(PLACES, PLACES, st.sampled_from(Trust))),
    st.lists(st.tuples(PLACES, PLACES)),
)
def test_spans_in_order_have_the_least_trust_of_all_parts_that_they_touch(
    parts: list[tuple[int, int, Trust]], spans: list[tuple[int, int]]
) -> None:
    known = MessageTrust(
        Trust.TYPED, tuple(sorted((at, at + long, trust) for at, long, trust in parts))
    )
    placed = sorted((at, at + long) for at, long in spans)
    assert [*known.find_least_each(placed)] == [
        find_least_trust(
            [
                known.own,
                *(trust for at, to, trust in known.parts if at < end and start < to),
            ]
        )
        for start, end in placed
    ]


@pytest.mark.parametrize(
    ("text", "role", "note"),
    [
        (
            'I copy their promise: "Broken panes are replaced within nine days, free of charge." '
            "So the glazier has nine days, write that down",
            "user",
            "in part web or pasted text",
        ),
        (
            '"Broken panes are replaced within nine days, free of charge." Yes?',
            "user",
            "web or pasted text",
        ),
        (
            'The page promises: "Broken panes are replaced within nine days, free of charge." '
            "So the glazier has nine days to come back",
            "assistant",
            "web or pasted text",
        ),
    ],
)
def test_a_message_that_quotes_beside_own_words_is_marked_in_part(
    text: str, role: str, note: str
) -> None:
    hit = Hit(
        kind="message",
        id="m",
        text=text,
        score=1.0,
        observed_at=None,
        status="active",
        sources=(),
        pair=(Fragment(role, "m", text),),
        trust=Trust.OUTSIDE,
    )
    assert hit.trust_note == note
    assert replace(hit, trust=Trust.TYPED).trust_note is None
