#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: the hook UserPromptSubmit fires for prompts that no person submitted.
#
# One would guess: UserPromptSubmit fires once for each prompt that a person submits, its `prompt` is what the person
# wrote, and `transcript_path` can be read in it.
# What happens:
# 1. Sub-agents run in the background by default. When one ends, the client submits its <task-notification> as a prompt:
#    the hook fires again, with the same fields and nothing that tells it from a person's prompt except the text. What the
#    hook prints goes to the model again. Only the transcript's record tells: `origin.kind` is "task-notification".
#    `Stop` fires once for each of both, so one prompt of a person has two ends.
# 2. At the first prompt `transcript_path` names a file that does not exist yet, not even with the hook's own prompt.
# Output seen:
#   UserPromptSubmit, transcript there: False, prompt: Start it.
#   Stop, transcript there: True
#   UserPromptSubmit, transcript there: True, prompt: <task-notification>
#   Stop, transcript there: True
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.claude" "$folder/project"
cat > "$folder/hook.py" <<'PYTHON'
import json
import os
import sys

event = json.load(sys.stdin)
event["there"] = os.path.exists(event["transcript_path"])
with open(sys.argv[1], "a") as log:
    log.write(json.dumps(event) + "\n")
PYTHON
hook='[{"hooks": [{"type": "command", "command": "python3 '$folder/hook.py' '$folder/events'"}]}]'
echo '{"hooks": {"UserPromptSubmit": '"$hook"', "Stop": '"$hook"'}}' > "$folder/home/.claude/settings.json"
prompt='Start it.
CALL Agent {"description": "count", "subagent_type": "general-purpose", "prompt": "Count.\nSLEEP 3"}
SAY Started.'
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 ANTHROPIC_API_KEY=none \
    ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 300 \
    "$folder/node_modules/@anthropic-ai/claude-code-linux-x64/claude" -p "$prompt" --dangerously-skip-permissions) \
    < /dev/null > "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
python3 - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
seen = [(event["hook_event_name"], event["there"], event.get("prompt", "").split("\n")[0]) for event in events]
for name, there, line in seen:
    print(f"{name}, transcript there: {there}" + (f", prompt: {line}" if line else ""))
(path,) = folder.glob("home/.claude/projects/*/*.jsonl")
records = [json.loads(line) for line in path.read_text().splitlines()]
origins = [record["origin"]["kind"] for record in records if record["type"] == "user" and "origin" in record]
submitted, stopped = ("UserPromptSubmit", True, "<task-notification>"), ("Stop", True, "")
same = events[0].keys() == events[2].keys()
if seen != [("UserPromptSubmit", False, "Start it."), stopped, submitted, stopped] or not same:
    sys.exit("the behaviour has changed")
if origins != ["task-notification"]:
    sys.exit(f"the behaviour has changed: origins {origins}")
PYTHON
