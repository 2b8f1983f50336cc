#!/usr/bin/env bash
# @openai/codex 0.171.0: the hook UserPromptSubmit fires for the prompt that a model writes to a sub-agent, and
# `session_id` is then another thread's than the transcript beside it.
#
# One would guess: UserPromptSubmit fires for prompts of a person; `session_id` is the id of the session whose file
# `transcript_path` names; in a rollout's first line `session_id` and `id` are two names of one id.
# What happens: the tool spawn_agent makes the hook fire with the model's words as `prompt`. `session_id` is that of the
# thread of the person, `transcript_path` that of the sub-agent's own rollout; only `agent_id` and `agent_type`, absent
# else, tell it from a person's prompt. Likewise in that rollout's session_meta: `id` is the sub-agent's, as in the file's
# name, and `session_id` the parent's. Who keys sessions by `session_id` merges both, and takes the model's words for a
# person's: the rollout has them as a plain user message.
# Output seen:
#   Delegate. | session_id is the file's: True | agent_id: False
#   Count the files. | session_id is the file's: False | agent_id: True
#   session_meta of the sub-agent: id is the file's: True, session_id is the parent's: True
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @openai/codex@0.171.0
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.codex" "$folder/project"
cat > "$folder/home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "http://127.0.0.1:$(cat "$folder/port")/v1", wire_api = "responses" }
TOML
cat > "$folder/home/.codex/hooks.json" <<JSON
{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "sed -e '\$a\\\\' >> $folder/events"}]}]}}
JSON
# the second call gives the sub-agent time to work
prompt='Delegate.
CALL multi_agent_v1/spawn_agent {"message": "Count the files.", "agent_type": "default"}
CALL exec_command {"cmd": "sleep 5"}'
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" timeout 300 "$folder/node_modules/.bin/codex" exec \
    --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust "$prompt") \
    < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
python3 - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
events = [json.loads(line) for line in (folder / "events").read_text().splitlines() if line]
seen = []
for event in events:
    same = event["transcript_path"].endswith(f"{event['session_id']}.jsonl")
    seen.append((event["prompt"].split("\n")[0], same, "agent_id" in event))
    print("{} | session_id is the file's: {} | agent_id: {}".format(*seen[-1]))
if seen != [("Delegate.", True, False), ("Count the files.", False, True)]:
    sys.exit("the behaviour has changed")
path = Path(events[1]["transcript_path"])
records = [json.loads(line) for line in path.read_text().splitlines()]
meta = records[0]["payload"]
own, parent = path.stem.endswith(meta["id"]), meta["session_id"] == events[0]["session_id"]
print(f"session_meta of the sub-agent: id is the file's: {own}, session_id is the parent's: {parent}")
said = [record["payload"] for record in records if record["payload"].get("role") == "user"]
if not own or not parent or said[-1]["content"][0]["text"] != "Count the files.":
    sys.exit("the behaviour has changed: the rollout")
PYTHON
