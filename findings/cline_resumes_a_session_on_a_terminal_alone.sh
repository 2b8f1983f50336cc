#!/usr/bin/env bash
# cline 3.0.65: `cline --id SESSION "prompt"` refuses without a terminal, though `cline "prompt"` runs without one.
#
# One would guess: as with `claude -p --resume`, `codex exec resume` and `copilot --resume -p`, a prompt beside the id
# of a session is one more turn of it, in a script as well.
# What happens: the prompt is not sent. It ends with status 1 and "interactive mode requires a TTY", and the session's
# file has the first turn alone. A script that goes on with a session has to begin a new one, so one matter of a
# person's lies in many sessions of one turn. What was typed is stored inside `<user_input mode="act">`.
# Output seen:
#   first turn: 0
#   resumed: 1, error: interactive mode requires a TTY (stdin/stdout must both be terminals)
#   stored: ['<user_input mode="act">We keep the tides in PostgreSQL.</user_input>']
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" cline@3.0.65
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.cline/data/settings" "$folder/project"
cat > "$folder/home/.cline/data/settings/providers.json" <<JSON
{"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
  "settings": {"provider": "openai-compatible", "apiKey": "none", "model": "stub",
    "baseUrl": "http://127.0.0.1:$(cat "$folder/port")/v1"},
  "updatedAt": "2026-11-29T09:00:00.000Z", "tokenSource": "manual"}}}
JSON
run() {
    (cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" \
        timeout 300 "$folder/node_modules/@cline/cli-linux-x64/bin/cline" "$@" < /dev/null) > "$folder/log" 2>&1
}
status=0
run "We keep the tides in PostgreSQL." || status=$?
echo "first turn: $status"
[ "$status" = 0 ] || { cat "$folder/log"; exit 1; }
session="$(ls "$folder/home/.cline/data/sessions")"
run --id "$session" "We prefer tabs." || status=$?
said="$(grep -o 'error:.*\|interactive mode.*' "$folder/log" | head -n 1 | sed 's/\x1b\[[0-9;]*m//g')"
echo "resumed: $status, $said"
python3 - "$folder/home/.cline/data/sessions/$session/$session.messages.json" "$status" "$said" <<'PYTHON'
import json
import sys

path, status, said = sys.argv[1:]
messages = json.load(open(path, encoding="utf-8"))["messages"]
stored = [part["text"] for one in messages if one["role"] == "user" for part in one["content"]]
print("stored:", stored)
typed = '<user_input mode="act">We keep the tides in PostgreSQL.</user_input>'
if stored != [typed] or status != "1" or "requires a TTY" not in said:
    sys.exit("the behaviour has changed")
PYTHON
