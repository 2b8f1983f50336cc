#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: a plugin's SessionEnd hook is cancelled within seconds, whatever its `timeout` says; the
# same hook in settings.json is not.
#
# One would guess: a hook with `"timeout": 15` may take 15 seconds, wherever it stands.
# What happens: with 6 seconds of work a plugin's SessionStart hook ends, and so does a SessionEnd hook of settings.json. The
# plugin's SessionEnd hook is killed, and "SessionEnd hook [...] failed: Hook cancelled" is printed. So a plugin hands the
# work to a process of its own at once.
# Output seen:
#   plugin SessionStart: ended
#   plugin SessionEnd: cancelled
#   settings SessionEnd: ended
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
}
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
hook() { echo '[{"hooks": [{"type": "command", "command": "sleep 6; touch '"'$folder/$1'"'", "timeout": 15}]}]'; }
claude() {
    (cd "$folder" && env -i PATH="$PATH" HOME="$folder/$home" ANTHROPIC_API_KEY=none \
        ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 300 \
        "$CLIENTS/node_modules/@anthropic-ai/claude-code-linux-x64/claude" "$@" < /dev/null) >> "$folder/out" 2>&1
}
mkdir -p "$folder/market/.claude-plugin" "$folder/market/p/.claude-plugin" "$folder/market/p/hooks" "$folder/plain/.claude" \
    "$folder/plugged"
echo '{"name": "m", "owner": {"name": "x"}, "plugins": [{"name": "p", "source": "./p"}]}' \
    > "$folder/market/.claude-plugin/marketplace.json"
echo '{"name": "p", "version": "1.0.0"}' > "$folder/market/p/.claude-plugin/plugin.json"
echo '{"hooks": {"SessionStart": '"$(hook "plugin SessionStart")"', "SessionEnd": '"$(hook "plugin SessionEnd")"'}}' \
    > "$folder/market/p/hooks/hooks.json"
echo '{"hooks": {"SessionEnd": '"$(hook "settings SessionEnd")"'}}' > "$folder/plain/.claude/settings.json"
home=plugged
claude plugin marketplace add "$folder/market"
claude plugin install p@m
claude -p "We use tabs."
home=plain
claude -p "We use tabs."
sleep 8 # what was not killed would have ended by now
for event in "plugin SessionStart" "plugin SessionEnd" "settings SessionEnd"; do
    if [ -e "$folder/$event" ]; then echo "$event: ended"; else echo "$event: cancelled"; fi
done | tee "$folder/seen"
expected=$'plugin SessionStart: ended\nplugin SessionEnd: cancelled\nsettings SessionEnd: ended'
if [ "$(cat "$folder/seen")" != "$expected" ]; then
    echo "changed: the hooks ended otherwise"
    cat "$folder/out"
    exit 1
fi
