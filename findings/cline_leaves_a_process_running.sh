#!/usr/bin/env bash
# cline 3.0.65: a single prompt on the command line leaves a process running.
#
# One would guess: `cline "prompt"` without a terminal answers and ends, and with it all that it started.
# What happens: it starts `cline --cline-hub-daemon`, in a session of its own, which is still there half a minute after the
# command has ended. Ending the command's process group does not end it. Who runs Cline in a temporary home, as tests and
# batch jobs do, finds one more such process after each home, each holding some hundred MB, and its folder is still in use.
# Output seen:
#   status 0; 30 s later: 1 process with this home, --cline-hub-daemon, of another session
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
left() { for file in /proc/[0-9]*/environ; do grep -qszx "HOME=$folder/home" "$file" && basename "$(dirname "$file")" || true; done; }
trap 'kill "${stub:-}" $(left) 2>/dev/null || true; sleep 1; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" cline@3.0.65
}
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.cline/data/settings" "$folder/project"
cat > "$folder/home/.cline/data/settings/providers.json" <<JSON
{"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
  "settings": {"provider": "openai-compatible", "apiKey": "none", "model": "stub",
    "baseUrl": "http://127.0.0.1:$(cat "$folder/port")/v1"},
  "updatedAt": "2026-11-29T09:00:00.000Z", "tokenSource": "manual"}}}
JSON
status=0
(cd "$folder/project" && env -i PATH="$PATH" HOME="$folder/home" timeout 300 \
    "$CLIENTS/node_modules/@cline/cli-linux-x64/bin/cline" "We keep the tides in PostgreSQL." < /dev/null) \
    > "$folder/log" 2>&1 || status=$?
sleep 30 # a process that only ends slowly would have ended by now
count=0 what=""
for pid in $(left); do
    count=$((count + 1))
    what="$(tr '\0' '\n' < "/proc/$pid/cmdline" | grep -- '^--cline' | head -n 1)"
    [ "$(ps -o sid= -p "$pid" | tr -d ' ')" != "$(ps -o sid= -p $$ | tr -d ' ')" ] && session=another || session="the same"
done
echo "status $status; 30 s later: $count process with this home, $what, of ${session:-no} session"
if [ "$status $count $what ${session:-no}" != "0 1 --cline-hub-daemon another" ]; then
    echo "the behaviour has changed"
    exit 1
fi
