#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: piped text is part of the person's prompt, mentions of files in it included.
#
# One would guess: `claude -p "Explain this log." < log` keeps the log apart from the prompt (Codex writes it between
# <stdin> tags), and `@notes.txt` attaches a file only where the person typed it.
# What happens: the user record's content is one string, the prompt and the log joined by a line break, without a mark.
# Nothing in the record or beside it tells where the person's words end. The string is then read as if it had been
# typed: a path after "@" in a line of the log is a mention, the file is read and its text sent to the model as an
# attachment. The same text stands three times more in the file: in `queue-operation`, in `last-prompt` on one line, and,
# as a message with role "user", in `api-request-blob` (a copy of what was sent, without uuid and time).
# Output seen:
#   content: 'Explain this log.\nERROR in @notes.txt, line 1\n'
#   attached: notes.txt
#   records with these words: api-request-blob last-prompt queue-operation user
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home" "$folder/project"
echo "words of the file" > "$folder/project/notes.txt"
(cd "$folder/project" && echo "ERROR in @notes.txt, line 1" | env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 \
    ANTHROPIC_API_KEY=none ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" \
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 300 \
    "$folder/node_modules/@anthropic-ai/claude-code-linux-x64/claude" -p "Explain this log.") > "$folder/log" ||
    { tail -n 5 "$folder/log"; exit 1; }
python3 - "$folder/home/.claude/projects" <<'PYTHON'
import json
import sys
from pathlib import Path

(path,) = Path(sys.argv[1]).glob("*/*.jsonl")
records = [json.loads(line) for line in path.read_text().splitlines()]
(content,) = [record["message"]["content"] for record in records if record["type"] == "user"]
files = [record["attachment"] for record in records if record.get("attachment", {}).get("type") == "file"]
attached = [file["displayPath"] for file in files if "words of the file" in json.dumps(file)]
kinds = sorted({record["type"] for record in records if "ERROR in @notes.txt" in json.dumps(record)})
print(f"content: {content!r}\nattached: {' '.join(attached)}\nrecords with these words: {' '.join(kinds)}")
if content != "Explain this log.\nERROR in @notes.txt, line 1\n" or attached != ["notes.txt"]:
    sys.exit("the behaviour has changed")
if kinds != ["api-request-blob", "last-prompt", "queue-operation", "user"]:
    sys.exit("the behaviour has changed: records")
PYTHON
