#!/usr/bin/env bash
# opencode-ai 1.18.33: `opencode run "words with spaces"` stores the words inside double quotes.
#
# One would guess: the text part of the user message is the argument as the person typed it.
# What happens: an argument that holds a space is put in double quotes, and quotes inside it get a backslash, before it is
# stored and sent to the model. The same words as several arguments, or from standard input, are stored as they are. A
# reader that compares a person's words, or takes quotes for a citation, meets three spellings of one sentence.
# Output seen:
#   one argument      -> "We call it \"heron\" here."
#   several arguments -> We call it "heron" here.
#   standard input    -> We call it "heron" here.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" opencode-ai@1.18.33
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.config/opencode" "$folder/project"
cat > "$folder/home/.config/opencode/opencode.json" <<JSON
{"model": "stub/stub", "small_model": "stub/stub", "share": "disabled", "autoupdate": false, "provider": {"stub": {
  "npm": "@ai-sdk/openai-compatible", "models": {"stub": {"tool_call": true}},
  "options": {"baseURL": "http://127.0.0.1:$(cat "$folder/port")/v1", "apiKey": "none"}}}}
JSON
run() {
    (cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" OPENCODE_DISABLE_MODELS_FETCH=1 \
        timeout 300 "$folder"/node_modules/opencode-linux-x64/bin/opencode run "$@" > /dev/null 2> "$folder/error") ||
        { cat "$folder/error"; exit 1; }
}
run 'We call it "heron" here.' < /dev/null
run We call it '"heron"' here. < /dev/null
echo 'We call it "heron" here.' | run
python3 - "$folder/home/.local/share/opencode/opencode.db" <<'PYTHON'
import sqlite3
import sys

texts = sqlite3.connect(sys.argv[1]).execute(
    "SELECT json_extract(part.data, '$.text') FROM part JOIN message ON message.id = part.message_id"
    " WHERE json_extract(message.data, '$.role') = 'user' AND json_extract(part.data, '$.type') = 'text'"
    " ORDER BY part.time_created"
)
stored = [text.strip() for (text,) in texts]
print(*stored, sep="\n")
plain = 'We call it "heron" here.'
if stored != [r'"We call it \"heron\" here."', plain, plain]:
    sys.exit("the behaviour has changed")
PYTHON
