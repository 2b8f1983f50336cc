#!/usr/bin/env bash
# @google/gemini-cli 0.61.0: what a SessionStart hook adds becomes part of the person's first prompt, everywhere.
#
# One would guess: a hook's `additionalContext` goes to the model beside the prompt; the prompt that the next hook gets, and
# the one that the chat file stores (at least in `displayContent`, which leaves out files that "@" attached), is what the
# person typed.
# What happens: with `-p` the SessionStart context is put before the prompt's text, in <hook_context> tags and with "<"
# written as "&lt;". From there on it is the prompt: BeforeAgent gets it as `prompt` (a memory's hook then searches for its
# own briefing), AfterAgent too, and the chat file has it in the same text part as the person's words, in `content` and in
# `displayContent`. The context that BeforeAgent adds is treated otherwise: a part of its own in `content`, and left out of
# `displayContent`. Claude Code 2.1.332 and Codex 0.171.0 store both as records of their own.
# Output seen:
#   BeforeAgent's prompt: '<hook_context>from SessionStart: a &lt; b</hook_context>\n\nWe use tabs.'
#   content: the same and '<hook_context>from BeforeAgent: a &lt; b</hook_context>'
#   displayContent: the same
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @google/gemini-cli@0.61.0
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.gemini" "$folder/project"
cat > "$folder/hook.py" <<'PYTHON'
import json
import sys

event = json.load(sys.stdin)
name = event["hook_event_name"]
with open(sys.argv[1], "a") as log:
    log.write(json.dumps(event) + "\n")
print(json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": f"from {name}: a < b"}}))
PYTHON
hook='[{"hooks": [{"type": "command", "command": "python3 '$folder/hook.py' '$folder/events'"}]}]'
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}},
  "hooks": {"SessionStart": '"$hook"', "BeforeAgent": '"$hook"'}}' > "$folder/home/.gemini/settings.json"
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" GEMINI_API_KEY=none GEMINI_CLI_TRUST_WORKSPACE=true \
    GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" timeout 300 \
    "$folder/node_modules/.bin/gemini" -m gemini-2.5-flash -p "We use tabs.") \
    < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
python3 - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
prompt = next(event["prompt"] for event in events if event["hook_event_name"] == "BeforeAgent")
(path,) = folder.glob("home/.gemini/tmp/*/chats/*.jsonl")
records = [json.loads(line) for line in path.read_text().splitlines()]
(user,) = [record for record in records if record.get("type") == "user"]
content = [part["text"] for part in user["content"]]
shown = [part["text"] for part in user["displayContent"]]
print(f"BeforeAgent's prompt: {prompt!r}\ncontent: {content}\ndisplayContent: {shown}")
first = "<hook_context>from SessionStart: a &lt; b</hook_context>\n\nWe use tabs."
second = "<hook_context>from BeforeAgent: a &lt; b</hook_context>"
if (prompt, content, shown) != (first, [first, second], [first]):
    sys.exit("the behaviour has changed")
PYTHON
