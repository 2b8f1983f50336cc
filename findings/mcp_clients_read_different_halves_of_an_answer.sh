#!/usr/bin/env bash
# Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, opencode 1.18.33, Qwen Code 0.24.4: which half of an MCP tool's
# answer the model reads depends on the client.
#
# One would guess: an answer with `content` (text for the model) and `structuredContent` (the same as data, for programs)
# shows the model the text, and the transcript keeps both.
# What happens: the model of Claude Code and of Codex gets the JSON of `structuredContent` alone, and the transcript's
# tool result holds that; the model of Gemini CLI and of opencode gets the text alone; that of Qwen Code gets the JSON and
# then the text. A server whose text is more careful than its data (a warning, an order, a budget of tokens) says that to
# some clients only, and one whose text is a summary is read in full by others. Gemini CLI puts the text between
# <untrusted_context> tags. The specification asks a server only to repeat the data in the text, for old clients.
# Output seen: claude data, codex data, gemini text, opencode text, qwen data and text
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332 \
    @openai/codex@0.171.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 @qwen-code/qwen-code@0.24.4
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home"
mkdir -p "$home/.codex" "$home/.gemini" "$home/.qwen" "$home/.config/opencode" "$folder/project"
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

answer = {"content": [{"type": "text", "text": "said as text"}], "structuredContent": {"hit": "said as data"}}
schema = {"type": "object", "properties": {"hit": {"type": "string"}}}
tool = {"name": "recall", "description": "Recall.", "inputSchema": {"type": "object"}, "outputSchema": schema}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    asked = request.get("params", {}).get("protocolVersion")
    hello = {"protocolVersion": asked, "capabilities": {"tools": {}}, "serverInfo": {"name": "mem", "version": "1"}}
    results = {"initialize": hello, "tools/list": {"tools": [tool]}, "tools/call": answer}
    reply = {"error": {"code": -32601, "message": "no such method"}}
    if request["method"] in results:
        reply = {"result": results[request["method"]]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | reply), flush=True)
PYTHON
servers='{"mcpServers": {"mem": {"command": "python3", "args": ["'$folder'/server.py"], "trust": true}}'
echo "$servers}" > "$folder/mcp.json"
echo "$servers, \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}}" > "$home/.gemini/settings.json"
echo "$servers, \"security\": {\"auth\": {\"selectedType\": \"openai\"}}}" > "$home/.qwen/settings.json"
cat > "$home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "$url/v1", wire_api = "responses" }
mcp_servers.mem = { command = "python3", args = ["$folder/server.py"], required = true }
TOML
cat > "$home/.config/opencode/opencode.json" <<JSON
{"model": "stub/stub", "small_model": "stub/stub", "autoupdate": false, "permission": "allow",
 "mcp": {"mem": {"type": "local", "command": ["python3", "$folder/server.py"]}}, "provider": {"stub": {
  "npm": "@ai-sdk/openai-compatible", "models": {"stub": {"tool_call": true}},
  "options": {"baseURL": "$url/v1", "apiKey": "none"}}}}
JSON
bin="$folder/node_modules"
run() {  # NAME and the command: run it in the project with a home of its own, and keep its requests
    : > "$folder/requests.jsonl"
    name=$1
    shift
    (cd "$folder/project" && env -i PATH="$PATH" HOME="$home" IS_SANDBOX=1 timeout 300 "$@") \
        < /dev/null > "$folder/$name.log" 2>&1 || { tail -n 5 "$folder/$name.log"; exit 1; }
    mv "$folder/requests.jsonl" "$folder/$name.jsonl"
}
ask() { printf 'Recall it.\nCALL %s {}\nThanks.' "$1"; }
run claude env ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$bin/@anthropic-ai/claude-code-linux-x64/claude" -p "$(ask mcp__mem__recall)" --mcp-config "$folder/mcp.json" \
    --dangerously-skip-permissions
run codex "$bin/.bin/codex" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$(ask mcp__mem/recall)"
run gemini env GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
    "$bin/.bin/gemini" -m gemini-2.5-flash -y -p "$(ask mcp_mem_recall)"
run opencode env OPENCODE_DISABLE_MODELS_FETCH=1 "$bin/opencode-linux-x64/bin/opencode" run "$(ask mem_recall)"
run qwen env OPENAI_API_KEY=none OPENAI_MODEL=stub OPENAI_BASE_URL="$url/v1" \
    "$bin/.bin/qwen" -y -p "$(ask mcp__mem__recall)"
python3 - "$folder" <<'PYTHON'
import sys
from pathlib import Path

expected = {"claude": "data", "codex": "data", "gemini": "text", "opencode": "text", "qwen": "data and text"}
found = {}
for name in expected:
    sent = Path(sys.argv[1], f"{name}.jsonl").read_text()
    found[name] = " and ".join(half for half in ("data", "text") if f"said as {half}" in sent)
print(", ".join(f"{name} {halves}" for name, halves in found.items()))
if found != expected:
    sys.exit("the behaviour has changed")
PYTHON
