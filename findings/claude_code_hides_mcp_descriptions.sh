#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: the model is not told what an MCP server's tools are for.
#
# One would guess: each request lists the MCP tools with their descriptions, so a description that says when to call the
# tool ("before you decide something that may have been decided before") is read by the model.
# What happens: MCP tools are deferred, even a single one. The request has the bare name in a list of deferred tools and
# neither description nor schema; the model has to call ToolSearch by that name first. The server's `instructions` are in
# the request, whole. A tool whose `_meta` has `"anthropic/alwaysLoad": true` is listed with its description. Thus the
# name, the instructions and that flag are what makes a memory be asked, not the description.
# (Qwen Code 0.24.4 defers too, and shows the description's beginning; Codex 0.171.0, Gemini CLI 0.61.0 and
# opencode 1.18.33 send descriptions whole.)
# Output seen: sent: instructions, name of plain, name of loaded, description of loaded
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home" "$folder/project"
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

plain = {"name": "plain", "description": "description of plain", "inputSchema": {"type": "object"}}
loaded = plain | {"name": "loaded", "description": "description of loaded", "_meta": {"anthropic/alwaysLoad": True}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    hello = {"capabilities": {"tools": {}}, "serverInfo": {"name": "mem", "version": "1"}, "instructions": "words to begin with"}
    hello["protocolVersion"] = request.get("params", {}).get("protocolVersion")
    results = {"initialize": hello, "tools/list": {"tools": [plain, loaded]}}
    reply = {"error": {"code": -32601, "message": "no such method"}}
    if request["method"] in results:
        reply = {"result": results[request["method"]]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | reply), flush=True)
PYTHON
echo '{"mcpServers": {"mem": {"command": "python3", "args": ["'"$folder"'/server.py"]}}}' > "$folder/mcp.json"
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 ANTHROPIC_API_KEY=none \
    ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 300 \
    "$folder/node_modules/@anthropic-ai/claude-code-linux-x64/claude" -p Hello. --mcp-config "$folder/mcp.json" \
    --dangerously-skip-permissions) < /dev/null > "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
python3 - "$folder/requests.jsonl" <<'PYTHON'
import sys
from pathlib import Path

texts = {
    "instructions": "words to begin with",
    "name of plain": "mcp__mem__plain",
    "description of plain": "description of plain",
    "name of loaded": "mcp__mem__loaded",
    "description of loaded": "description of loaded",
}
requests = Path(sys.argv[1]).read_text()
sent = [name for name, text in texts.items() if text in requests]
print("sent:", ", ".join(sent))
if sent != ["instructions", "name of plain", "name of loaded", "description of loaded"]:
    sys.exit("the behaviour has changed")
PYTHON
