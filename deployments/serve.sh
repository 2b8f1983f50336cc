#!/usr/bin/env bash
# A Prefect server on 127.0.0.1 and a worker that runs the nightly deployment. Ctrl-C ends both, and a night at work.
#
#     deployments/serve.sh [folder of the prefect command]      PORT=4200 DEPLOYMENTS=deployments/prefect.yaml
set -euo pipefail
cd "$(dirname "$0")/.."
bin="$(cd "${1:-.venv/bin}" && pwd)"
port="${PORT:-4200}"
deployments="${DEPLOYMENTS:-deployments/prefect.yaml}"
export PREFECT_API_URL="http://127.0.0.1:$port/api"
export PATH="$bin:$PATH" # the time zone of the schedule is asked of this Python
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1

# Each command is a job with a process group of its own, and is waited for: so a Ctrl-C comes to this script alone, and at
# once, whatever it is at. It ends the worker with its runs first, while there is a server to tell how they ended.
set -m
server="" worker="" step=""

run() {
    "$@" &
    step=$!
    local status=0
    wait "$step" || status=$?
    step=""
    return "$status"
}

end_group() {
    [ -n "$1" ] && kill -TERM -- "-$1" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.2
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}

end_all() {
    trap '' INT TERM HUP
    exec 2>/dev/null # bash's own lines about jobs that were ended
    end_group "$step"
    end_group "$worker"
    end_group "$server"
}
trap end_all EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

"$bin/prefect" server start --host 127.0.0.1 --port "$port" &
server=$!
# On a busy machine the server takes minutes to start: wait as long as it lives.
until run "$bin/python" -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + '/health', timeout=30)" \
    "$PREFECT_API_URL" 2>/dev/null; do
    kill -0 "$server" # the server ended: so do we
    run sleep 1
done

run "$bin/prefect" work-pool create slowwave --type process >/dev/null 2>&1 || true # it is there already
run "$bin/prefect" --no-prompt deploy --prefect-file "$deployments" --all
echo "slowwave: the night runs at 03:00; see http://127.0.0.1:$port, or start one now:"
echo "    PREFECT_API_URL=$PREFECT_API_URL $bin/prefect deployment run nightly/nightly"
# One run at a time: a run that is due while another is at work waits for it, and does not fail at the store's lock.
"$bin/prefect" worker start --pool slowwave --limit 1 &
worker=$!
wait "$worker"
