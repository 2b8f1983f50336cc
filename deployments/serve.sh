#!/usr/bin/env bash
# A Prefect server on 127.0.0.1 and a worker that runs the nightly deployment. Ctrl-C ends both.
#
#     deployments/serve.sh [folder of the prefect command]      PORT=4200
set -euo pipefail
cd "$(dirname "$0")/.."
bin="$(cd "${1:-.venv/bin}" && pwd)"
port="${PORT:-4200}"
export PREFECT_API_URL="http://127.0.0.1:$port/api"
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1

"$bin/prefect" server start --host 127.0.0.1 --port "$port" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT

for _ in $(seq 120); do
    if "$bin/python" -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + '/health', timeout=2)" \
        "$PREFECT_API_URL" 2>/dev/null; then
        break
    fi
    kill -0 "$server" # the server ended: so do we
    sleep 1
done

"$bin/prefect" work-pool inspect slowwave >/dev/null 2>&1 || "$bin/prefect" work-pool create slowwave --type process
"$bin/prefect" --no-prompt deploy --prefect-file deployments/prefect.yaml --all
echo "slowwave: the night runs at 03:00; see http://127.0.0.1:$port, or start one now:"
echo "    PREFECT_API_URL=$PREFECT_API_URL $bin/prefect deployment run nightly/nightly"
"$bin/prefect" worker start --pool slowwave
