"""Which words of a prompt a person typed, and who typed a prompt."""

from pathlib import Path
from typing import Any, cast

import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.tasks.ingest.parsing.records import Message, Rejected, Session, Skipped
from slowwave.tasks.ingest.parsing.values import extract_typed
from tests.transcript_rows import put, read, read_messages

# Its own tags stand in the file.
# And one that is never closed.
# Nobody names a tag so in a prompt of one's own.
# A person may write a prompt so.
# No block: the line goes on.
TYPED = [
    (
        "<claude-mem-context>\n- photos in CouchDB\n</claude-mem-context>\nWhat is next?",
        "What is next?",
    ),
    ("<hook_context>a &lt; b</hook_context>\n\nWe use tabs.", "We use tabs."),
    ("<a-b>\nx\n</a-b>\n<c_d>\ny\n</c_d>\n\nGo on.", "Go on."),
    (
        '<file name="a.xml">\n<file>x</file>\n</file>\nRead it.',
        "Read it.",
    ),
    (
        '<file name="a.xml">\na <file> is named\n</file>\nRead it.',
        "Read it.",
    ),
    (
        "<session_context>\nToday is Friday.\n</session_context>",
        "",
    ),
    ('<file name="a.txt">\nx\n</file>\n', ""),
    (
        "<task>\nWe decided on NATS.\n</task>",
        "<task>\nWe decided on NATS.\n</task>",
    ),
    (
        "<b>Never</b> on Fridays.",
        "<b>Never</b> on Fridays.",
    ),
    ("Put <div>\nx\n</div>\nthere.", "Put <div>\nx\n</div>\nthere."),  # not at the head
    ("<pre> is never closed", "<pre> is never closed"),
    ("a < b", "a < b"),
    # A person's words on the line of the last tag.
    ("<mem>\n- tabs\n</mem> What is next?", "What is next?"),
    ("<user_memory>Likes tabs.</user_memory> Go on.", "Go on."),
    ("<mem>x</mem><mem2>y</mem2>\nGo on.", "Go on."),
    ("<b>Never</b> <i>ever</i> on Fridays.", "<b>Never</b> <i>ever</i> on Fridays."),
    ("<my-button>Save</my-button> is small", "<my-button>Save</my-button> is small"),
    # Names of any letters, in any case.
    ("<記憶>\nx\n</記憶>\nGo on.", "Go on."),
    ("<Mem>\nx\n</MEM>\nGo on.", "Go on."),
    # A program's block does not become a person's by what stands below it.
    (
        "<mem_x>\nTabs.\n</mem_x>\n<task>\nUse NATS.\n</task>",
        "<task>\nUse NATS.\n</task>",
    ),
]


@pytest.mark.parametrize(("prompt", "typed"), TYPED)
def test_blocks_at_the_head_of_a_prompt_are_no_words_of_a_person(
    prompt: str, typed: str
) -> None:
    assert extract_typed(prompt) == typed


def claude(**fields: object) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s1",
        "message": {"content": "Use tabs."},
        **fields,
    }


# A person's editor runs it.
WHO = [
    ({}, ("user", "human")),
    ({"entrypoint": "cli"}, ("user", "human")),
    ({"entrypoint": "sdk-ts"}, ("agent", "model")),
    ({"entrypoint": "sdk-cli"}, ("agent", "model")),  # claude -p
    (
        {"entrypoint": "sdk-ts", "origin": {"kind": "human"}},
        ("user", "human"),
    ),
]


@pytest.mark.parametrize(("fields", "who"), WHO)
def test_a_program_that_runs_claude_code_is_no_person(
    fields: dict[str, object], who: tuple[str, str], tmp_path: Path
) -> None:
    message = read_messages(put(tmp_path / "s1.jsonl", (claude(**fields),)))[0]
    assert (message.role, message.origin) == who


REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\nask me before you add one"
)


# Of a server's tool a result may say anything.
@pytest.mark.parametrize(
    ("tool", "said"), [("Bash", ["ask me before you add one"]), ("mcp__wiki__get", [])]
)
def test_what_a_person_types_when_refusing_a_call_is_said(
    tool: str, said: list[str], tmp_path: Path
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": tool, "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": REFUSED,
        "is_error": True,
    }
    answer = {**claude(uuid="a1"), "type": "assistant", "message": {"content": [call]}}
    records = (
        claude(),
        answer,
        claude(uuid="u2", parentUuid="a1", message={"content": [result]}),
    )
    messages = read_messages(put(tmp_path / "s1.jsonl", records))
    assert [m.text for m in messages if m.origin == "human"] == ["Use tabs.", *said]
    assert [m.native_id for m in messages if m.origin == "tool"] == ["u2"]


def test_a_compaction_summary_stays_to_be_found_if_nothing_that_it_sums_up_is_there(
    tmp_path: Path,
) -> None:
    summary, asked = claude(isCompactSummary=True), claude(uuid="u2")
    alone = read_messages(put(tmp_path / "alone.jsonl", (summary, asked)))[0]
    assert (alone.role, alone.origin, alone.speaker) == (
        "system",
        "model",
        "from a summary",
    )
    beside = read_messages(put(tmp_path / "beside.jsonl", (asked, summary)))[1]
    assert (beside.role, beside.origin) == ("system", "synthetic")


# `codex exec` is a person's too: nothing says whether they or a program ran it.
@pytest.mark.parametrize(
    ("head", "kind", "role"),
    [
        ({"source": "exec", "originator": "codex_exec"}, "chat", "user"),
        ({"source": "exec", "originator": "codex_sdk_ts"}, "scheduled", "agent"),
        ({"source": {"internal": "memory_consolidation"}}, "scheduled", "agent"),
        ({"source": "cli", "thread_source": "automation"}, "scheduled", "agent"),
        ({"source": {"subagent": "review"}}, "subagent", "agent"),
    ],
)
def test_a_program_that_runs_codex_is_no_person(
    head: dict[str, object], kind: str, role: str, tmp_path: Path
) -> None:
    said = [{"type": "input_text", "text": "Use tabs."}]
    item = {"type": "message", "role": "user", "content": said}
    lines = (
        {"type": "session_meta", "payload": {"id": "c1", "cwd": "/pond", **head}},
        {"type": "response_item", "payload": item},
    )
    session, message = read(put(tmp_path / "r.jsonl", lines))
    assert isinstance(session, Session)
    assert isinstance(message, Message)
    assert (session.kind, message.role) == (kind, role)


def test_what_was_piped_into_codex_is_not_said(tmp_path: Path) -> None:
    piped = "Explain.\n\n<stdin>\nnever </stdin> on Fridays\n</stdin>"
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": piped}],
    }
    assert (
        read_messages(
            put(tmp_path / "r.jsonl", ({"type": "response_item", "payload": item},))
        )[0].text
        == "Explain."
    )


def test_of_two_prompts_that_steer_a_turn_the_later_is_not_older(
    tmp_path: Path,
) -> None:
    lines = [claude(timestamp="2026-11-20T10:00:40Z")]
    for seconds, word in ((20, "blue"), (30, "red")):  # typed while a turn ran
        queued = {"type": "queued_command", "prompt": f"It must be {word}."}
        lines.append(
            claude(
                type="attachment",
                uuid=word,
                attachment=queued,
                timestamp=f"2026-11-20T10:00:{seconds}Z",
            )
        )
    _, blue, red = read_messages(put(tmp_path / "s1.jsonl", tuple(lines)))
    assert (blue.text, red.text) == ("It must be blue.", "It must be red.")
    assert blue.ts == red.ts  # that of the record above both


INJECTED = "<other-memory>\nNever use tabs.\n</other-memory>\nWe use tabs."
LINE = {"role": "user", "content": INJECTED}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generic.jsonl", (LINE,)),
        ("openai.jsonl", ({"messages": [LINE]},)),
        (
            "claude.json",
            [
                {
                    "uuid": "c",
                    "chat_messages": [
                        {"uuid": "m", "sender": "human", "text": INJECTED}
                    ],
                }
            ],
        ),
        (
            "chatgpt.json",
            [
                {
                    "id": "c",
                    "current_node": "n",
                    "mapping": {
                        "n": {
                            "id": "n",
                            "children": [],
                            "message": {
                                "id": "m",
                                "author": {"role": "user"},
                                "content": {
                                    "content_type": "text",
                                    "parts": [INJECTED],
                                },
                            },
                        }
                    },
                }
            ],
        ),
        (
            "grok.json",
            {
                "conversations": [
                    {
                        "conversation": {"id": "c"},
                        "responses": [
                            {
                                "response": {
                                    "_id": "m",
                                    "sender": "human",
                                    "message": INJECTED,
                                }
                            }
                        ],
                    }
                ]
            },
        ),
        (
            ".specstory/history/a.md",
            f"<!-- Generated by SpecStory -->\n\n_**User (2026-01-01 09:00:00Z)**_\n\n{INJECTED}\n\n---\n",
        ),
    ],
)
def test_an_injected_block_is_nobodys_words_in_any_format(
    name: str, content: object, tmp_path: Path
) -> None:
    (message,) = read_messages(put(tmp_path / name, content))
    assert (message.origin, message.text) == ("human", "We use tabs.")


def test_a_prompt_that_steers_a_turn_is_not_older_than_what_stands_above_it(
    tmp_path: Path,
) -> None:
    first = claude(timestamp="2026-11-20T10:00:20Z")
    queued = {"type": "queued_command", "prompt": "No, spaces."}
    lines = (
        first,
        claude(
            type="attachment",
            uuid="u2",
            attachment=queued,
            timestamp="2026-11-20T10:00:01Z",
        ),
    )
    above, steering = read_messages(put(tmp_path / "s1.jsonl", lines))
    assert steering.text == "No, spaces."
    assert steering.ts == above.ts


def test_a_summary_that_is_all_there_is_can_be_found_and_says_what_it_is(
    tmp_path: Path,
) -> None:
    said = "The user decided that invoices of barn are numbered per year, and that rates live in rates.toml."
    lines = (
        claude(
            isCompactSummary=True,
            message={"content": said},
            timestamp="2026-06-01T10:00:00Z",
        ),
        claude(
            uuid="u2",
            message={"content": "Go on with the tests now."},
            timestamp="2026-06-01T10:01:00Z",
        ),
    )
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([put(tmp_path / "s1.jsonl", lines)], settings)
    hits = Memory.open(settings.store).recall("invoices numbered per year")
    found = {(hit.kind, hit.speaker) for hit in hits if "invoices" in hit.text}
    assert ("message", "from a summary") in found
    assert "claim" not in {kind for kind, _ in found}


def test_a_summary_of_pi_that_is_all_there_is_says_what_it_is(tmp_path: Path) -> None:
    head = {"type": "session", "version": 3, "id": "p", "cwd": "/home/ada/harbor"}
    kept = {"type": "compaction", "id": "k", "parentId": None, "summary": "Red ropes."}
    said = {"role": "user", "content": "Go on."}
    prompt = {"type": "message", "id": "a", "parentId": "k", "message": said}
    again = {**kept, "id": "z", "parentId": "a"}
    lines = (head, kept, prompt, again)
    first, _, last = read_messages(put(tmp_path / "p.jsonl", lines))
    assert (first.origin, first.speaker) == ("model", "from a summary")
    assert last.origin == "synthetic"  # what it sums up stands above it


def test_a_summary_stands_behind_what_a_person_said(tmp_path: Path) -> None:
    lines = (
        claude(
            isCompactSummary=True,
            message={"content": "The user decided that the mooring fee is 12 euros."},
            timestamp="2026-06-01T10:00:00Z",
        ),
    )
    put(tmp_path / "talk/s1.jsonl", lines)
    said = {"content": "In the end the fee of each mooring may be 14 euros."}
    earlier = claude(uuid="u9", sessionId="s9", message=said)
    put(tmp_path / "talk/s9.jsonl", (earlier,))
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([tmp_path / "talk"], settings)
    hits = Memory.open(settings.store).recall("The mooring fee is how many euros?")
    speakers = [hit.speaker for hit in hits if hit.kind == "message"]
    assert speakers == ["user", "from a summary"]  # though it has more of the words


def test_a_prompt_to_cursor_may_name_the_tag_around_it(tmp_path: Path) -> None:
    said = "And what is the <user_query> tag?"
    content = f"<user_query>\n{said}\n</user_query>"
    line = {"role": "user", "message": {"content": content}}
    (message,) = read_messages(put(tmp_path / "a.jsonl", (line,)))
    assert message.text == said


def test_content_of_no_known_type_is_rejected(tmp_path: Path) -> None:
    lines = (claude(), claude(uuid="u2", message={"role": "user", "content": 12}))
    (bad,) = [
        record
        for record in read(put(tmp_path / "s1.jsonl", lines))
        if isinstance(record, Rejected)
    ]
    assert (bad.line, bad.reason) == (2, "user record without message content")


def test_words_in_a_part_of_no_known_form_are_told_of(tmp_path: Path) -> None:
    parts = [{"newText": "We use tabs here."}]
    message = {"role": "user", "parts": parts}
    qwen = claude(message=message, provenance="real_user")
    (record,) = read(put(tmp_path / "s1.jsonl", (qwen,)))
    assert "We use tabs here." in cast(Skipped, record).words
    prompt = {"text": "We use tabs here."}
    request = {"requestId": "r", "prompt": prompt, "response": []}
    chat = {"responderUsername": "x", "sessionId": "v", "requests": [request]}
    _, record = read(put(tmp_path / "v.json", chat))
    assert "We use tabs here." in cast(Rejected, record).excerpt


def test_what_a_hook_of_qwen_code_added_is_not_the_persons(tmp_path: Path) -> None:
    tag = "qwen:user-prompt-submit-context"
    added = f"<{tag}>\nperson: we use tabs\n</{tag}>"
    records = tuple(
        {
            "uuid": f"u{number}",
            "parentUuid": None,
            "sessionId": "q",
            "timestamp": f"2026-06-01T10:0{number}:00.000Z",
            "type": "user",
            "provenance": "real_user",
            "cwd": "/home/ada/harbor",
            "message": {"role": "user", "parts": [{"text": said}, {"text": added}]},
            "systemPayload": payload,
        }
        for number, (said, payload) in enumerate(
            [
                ("Go on.", {"displayText": "Go on.", "hookContext": "we use tabs"}),
                ("I typed:", {}),  # no hook: a person may paste the same
            ]
        )
    )
    path = put(tmp_path / ".qwen/projects/p/chats/q.jsonl", records)
    texts = [message.text for message in read_messages(path)]
    assert texts[0] == "Go on."
    assert added in texts[1]
