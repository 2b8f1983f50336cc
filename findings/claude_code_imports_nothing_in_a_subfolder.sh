#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: started in a subfolder with `-p`, it reads the repository's CLAUDE.md and leaves out what
# that file imports.
#
# One would guess: CLAUDE.md means the same wherever in the repository one starts; a CLAUDE.md that says `@AGENTS.md` alone, as
# many do who keep one file for all clients, gives that file's rules.
# What happens: at the top of the repository the import is read. In a subfolder CLAUDE.md is still read and `@AGENTS.md` in it
# stays a line of text: the file lies outside of the folder that the program was started in. Nothing on the screen says so,
# the status is 0, and the model works without the project's rules. (A subfolder's own CLAUDE.md is read.)
# Output seen:
#   top: CLAUDE.md yes, what it imports yes
#   gauges: CLAUDE.md yes, what it imports no
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
}
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home" "$folder/top/gauges"
git -C "$folder/top" init -q
printf '# Tides\n\nGauges stand in the harbour.\n\n@AGENTS.md\n' > "$folder/top/CLAUDE.md"
printf 'Heights are in centimetres.\n' > "$folder/top/AGENTS.md"
for place in top top/gauges; do
    : > "$folder/requests"
    (cd "$folder/$place" && env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 ANTHROPIC_API_KEY=none \
        ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 300 \
        "$CLIENTS/node_modules/@anthropic-ai/claude-code-linux-x64/claude" --dangerously-skip-permissions -p "Hello there." \
        < /dev/null) > "$folder/out" 2>&1
    file=no imported=no
    ! grep -q "Gauges stand in the harbour" "$folder/requests" || file=yes
    ! grep -q "Heights are in centimetres" "$folder/requests" || imported=yes
    echo "${place##*/}: CLAUDE.md $file, what it imports $imported"
done | tee "$folder/seen"
if [ "$(cat "$folder/seen")" != $'top: CLAUDE.md yes, what it imports yes\ngauges: CLAUDE.md yes, what it imports no' ]; then
    echo "the behaviour has changed"
    exit 1
fi
