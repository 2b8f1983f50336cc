#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: a forked session's file gives all old prompts the `promptId` of the new one.
#
# One would guess: `--resume ID --fork-session` copies the records as they are under a new `sessionId`, so that `promptId`
# still groups a prompt with what belongs to it, and `last-prompt` names the prompt that was typed last.
# What happens: the copies keep their `uuid`, `parentUuid` and `timestamp`, but `promptId` is rewritten: each prompt in the
# fork's file has the id of the prompt that forked it. Who groups by `promptId` gets one prompt out of three, and the two
# files disagree about the same uuid. The fork's `last-prompt` is the first prompt of the session that was forked. No user
# record names the session it came from; only the copied answers' `requestSessionId` still does.
# Output seen:
#   prompts: First. Second. Forked.
#   ids in the fork's file: 1, in the first file: 2; uuids in both: 2 of 3; last-prompt: First.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home" "$folder/project"
session=11111111-1111-4111-8111-111111111111
ask() {
    (cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 ANTHROPIC_API_KEY=none \
        ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
        timeout 300 "$folder/node_modules/@anthropic-ai/claude-code-linux-x64/claude" -p "$@") \
        < /dev/null > "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
}
ask First. --session-id "$session"
ask Second. --resume "$session"
ask Forked. --resume "$session" --fork-session
python3 - "$folder/home/.claude/projects" "$session" <<'PYTHON'
import json
import sys
from pathlib import Path

files = {path.stem: path.read_text().splitlines() for path in Path(sys.argv[1]).glob("*/*.jsonl")}
first = [json.loads(line) for line in files.pop(sys.argv[2])]
(fork,) = [[json.loads(line) for line in lines] for lines in files.values()]


def prompts(records: list[dict]) -> list[dict]:
    return [record for record in records if record["type"] == "user"]


def count(records: list[dict], field: str) -> int:
    return len({record[field] for record in prompts(records)})


texts = [record["message"]["content"] for record in prompts(fork)]
print("prompts:", *texts)
shared = {record["uuid"] for record in prompts(first)} & {record["uuid"] for record in prompts(fork)}
last = [record["lastPrompt"] for record in fork if record["type"] == "last-prompt"][-1]
ids = count(fork, "promptId"), count(first, "promptId")
print(f"ids in the fork's file: {ids[0]}, in the first file: {ids[1]}; uuids in both: {len(shared)} of 3; last-prompt: {last}")
if (texts, ids, len(shared), last) != (["First.", "Second.", "Forked."], (1, 2), 2, "First."):
    sys.exit("the behaviour has changed")
named = [record for record in prompts(fork) if sys.argv[2] in json.dumps(record)]
answers = [record.get("requestSessionId") for record in fork if record["type"] == "assistant"]
if named or answers[:2] != [sys.argv[2]] * 2:
    sys.exit("the behaviour has changed: the session that was forked")
PYTHON
