#!/usr/bin/env bash
# @qwen-code/qwen-code 0.24.4: what a PreToolUse hook gives as `additionalContext` never reaches the model.
#
# One would guess: as its documentation names `hookSpecificOutput.additionalContext` for PreToolUse ("context injection"),
# and as Claude Code and Codex do, the text is sent with the call's result.
# What happens: the hook runs, its output is parsed, and the text is dropped without a word. The same output of PostToolUse
# stands in the next request. So what is to be told at a tool call has to come after it.
# Output seen:
#   PreToolUse ran: yes, told: no
#   PostToolUse ran: yes, told: yes
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @qwen-code/qwen-code@0.24.4
}
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.qwen" "$folder/project"
cat > "$folder/hook" <<'HOOK'
#!/usr/bin/env python3
import json, pathlib, sys
event = json.load(sys.stdin)["hook_event_name"]
pathlib.Path(sys.argv[1], event).touch()
more = {"permissionDecision": "allow", "permissionDecisionReason": "x"} if event == "PreToolUse" else {}
print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": f"told by {event}", **more}}))
HOOK
chmod +x "$folder/hook"
hook='[{"hooks": [{"type": "command", "command": "'"$folder/hook $folder"'"}]}]'
echo '{"security": {"auth": {"selectedType": "openai"}}, "memory": {"enableManagedAutoMemory": false},
  "hooks": {"PreToolUse": '"$hook"', "PostToolUse": '"$hook"'}}' > "$folder/home/.qwen/settings.json"
prompt='Look.
CALL run_shell_command {"command": "echo here", "is_background": false}
SAY Done.'
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" OPENAI_API_KEY=none OPENAI_MODEL=stub \
    OPENAI_BASE_URL="http://127.0.0.1:$(cat "$folder/port")/v1" timeout 300 \
    "$CLIENTS/node_modules/.bin/qwen" -y -p "$prompt" < /dev/null) > "$folder/out" 2>&1 || true
for event in PreToolUse PostToolUse; do
    ran=no told=no
    [ ! -e "$folder/$event" ] || ran=yes
    ! grep -q "told by $event" "$folder/requests" || told=yes
    echo "$event ran: $ran, told: $told"
done | tee "$folder/seen"
if [ "$(cat "$folder/seen")" != $'PreToolUse ran: yes, told: no\nPostToolUse ran: yes, told: yes' ]; then
    echo "changed: the context of a hook is passed on otherwise"
    cat "$folder/out"
    exit 1
fi
