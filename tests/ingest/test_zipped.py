"""Exports as they are downloaded, and files that no reader knows."""

import json
import zipfile
from pathlib import Path

import pytest

from slowwave.tasks.ingest.formats.nearest import HOW
from slowwave.tasks.ingest.formats.registry import detect_reader, find_files
from slowwave.tasks.ingest.parsing.records import (
    Limits,
    Message,
    Rejected,
    Skipped,
    UnknownFormat,
)
from tests.transcript_rows import put, read, read_messages

TRANSCRIPTS = Path(__file__).parent / "transcripts"
GROK = {
    "conversations": [
        {
            "conversation": {
                "id": "g1",
                "title": "Tides",
                "create_time": "2025-11-20T10:00:00Z",
            },
            "responses": [
                {
                    "response": {
                        "_id": "r1",
                        "sender": "human",
                        "message": "We measure at Port Aven.",
                        "create_time": {"$date": {"$numberLong": "1763632800000"}},
                    }
                },
                {"response": {"_id": "r2", "sender": "ASSISTANT", "message": "Noted."}},
            ],
        }
    ],
    "projects": [],
}


def pack(path: Path, **members: object) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(
                name,
                content if isinstance(content, str | bytes) else json.dumps(content),
            )
    return path


EXPORTS = [
    ("chatgpt", "chatgpt/edited.json", "conversations-000.json"),
    ("claude-ai", "claude-ai/conversations.json", "conversations.json"),
    ("gemini", "gemini/studio.json", "Takeout/AI Studio/studio.json"),
]


@pytest.mark.parametrize(("reader", "fixture", "name"), EXPORTS)
def test_an_export_is_read_as_it_was_downloaded(
    reader: str, fixture: str, name: str, tmp_path: Path
) -> None:
    """The archive gives what its file gives, and tells which of its files are no talk."""
    path = pack(
        tmp_path / "export.zip",
        **{"user.json": "{}", name: (TRANSCRIPTS / fixture).read_bytes()},
    )
    assert detect_reader(path).name == reader
    assert list(find_files([tmp_path])) == [path]
    records = read(path)
    assert Skipped("file in a ZIP: user.json") in records
    told = [record for record in records if isinstance(record, Message)]
    assert told == [
        record for record in read(TRANSCRIPTS / fixture) if isinstance(record, Message)
    ]


def test_a_grok_export_is_read_with_its_times(tmp_path: Path) -> None:
    path = pack(
        tmp_path / "grok.zip", **{"ttl/30d/export_data/u/prod-grok-backend.json": GROK}
    )
    asked, answered = read_messages(path)
    assert (asked.role, asked.text, str(asked.ts)) == (
        "user",
        "We measure at Port Aven.",
        "2025-11-20 10:00:00+00:00",  # 1763632800000 ms
    )
    assert (answered.role, answered.session) == ("assistant", "g1")


def test_a_damaged_archive_says_so_and_costs_no_other_member(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownFormat, match=r"the ZIP can't be read: File is not a zip file"
    ):
        detect_reader(put(tmp_path / "a.zip", b"PK\x03\x04 cut"))
    with pytest.raises(
        UnknownFormat, match=r"no reader knows a file in the ZIP: user\.json"
    ):
        detect_reader(pack(tmp_path / "b.zip", **{"user.json": "{}"}))
    path = pack(tmp_path / "c.zip", **{"user.json": {"a": 1}, "grok.json": GROK})
    data = bytearray(
        pack(
            tmp_path / "d.zip", a_json=GROK, **{"z.json": GROK, "zz.json": GROK}
        ).read_bytes()
    )
    at = data.find(b"PK\x01\x02") - 20  # within the packed bytes of the last member
    data[at] ^= 0xFF
    records = list(
        detect_reader(path).read(put(tmp_path / "e.zip", bytes(data)), Limits())
    )
    assert [record.session for record in records if isinstance(record, Message)][
        :2
    ] == ["g1", "g1"]
    (bad,) = [record for record in records if isinstance(record, Rejected)]
    assert bad.reason.startswith("zz.json: it can't be unpacked")


UNKNOWN = [
    (
        '{"who": "ann", "said": "Use tabs."}\n',
        "nothing in it says who speaks (fields said, who)",
    ),
    (
        '{"role": 7, "message": {"from": "user", "text": "Use tabs."}}\n',
        "it holds what somebody said (fields message, message.from, message.text, role, most like those of cursor)",
    ),
    ('{"uuid": 1, "sessionId": 2, "note": ""}\n', "most like those of claude-code"),
    ("plain words\n", "it is not JSON lines"),
]


@pytest.mark.parametrize(("content", "why"), UNKNOWN)
def test_a_format_that_nobody_knows_is_described_with_a_way_to_read_it(
    content: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UnknownFormat) as error:
        detect_reader(put(tmp_path / "a.jsonl", content))
    assert why in str(error.value)
    assert 'generic JSONL, a line a message: {"role": "user"' in str(error.value)


def test_an_unknown_array_is_described_by_its_objects(tmp_path: Path) -> None:
    said = {"id": "x", "conversations": [{"from": "human", "value": "Use tabs."}]}
    lines = json.dumps([said], indent=2)
    with pytest.raises(UnknownFormat, match="most like those of sharegpt"):
        detect_reader(put(tmp_path / "a.json", lines))


def test_a_damaged_first_member_costs_no_other_member(tmp_path: Path) -> None:
    packed = pack(tmp_path / "a.zip", **{"a.json": GROK, "b.json": GROK})
    data = bytearray(packed.read_bytes())
    data[60] ^= 0xFF  # within the packed bytes of the first member
    bad, *records = read(put(tmp_path / "b.zip", bytes(data)))
    assert isinstance(bad, Rejected)
    assert bad.reason.startswith("a.json: it can't be unpacked")
    assert len([one for one in records if isinstance(one, Message)]) == 2


def test_what_somebody_said_in_another_file_of_an_archive_is_not_passed_over(
    tmp_path: Path,
) -> None:
    codex = (TRANSCRIPTS / "codex" / "plain.jsonl").read_bytes()
    unknown = [{"speaker": "user", "text": "We never deploy on Fridays."}]
    path = pack(
        tmp_path / "a.zip",
        **{"a.json": GROK, "b.jsonl": codex, "c.json": unknown, "d.json": {"e": 1}},
    )
    records = read(path)
    assert [one.reason for one in records if isinstance(one, Rejected)] == [
        "b.jsonl: it is codex's, and the ZIP is read as grok's: unpack it and name its folder",
        f"c.json: it holds what somebody said, and no reader knows it: {HOW}",
    ]
    assert Skipped("file in a ZIP: d.json") in records
