#!/usr/bin/env bash
# @anthropic-ai/claude-code 2.1.332: a prompt that was taken back stays in the transcript like any other, and what replaced
# it need not be its sibling.
#
# One would guess: the Escape key during a turn writes "[Request interrupted by user]" after the prompt, as it does during a
# tool's run; or a prompt that the client gives back to be edited is not in the file, or has a mark there.
# What happens: before the answer's first word the key puts the prompt back into the line of input, to be changed and sent
# again. The record of the first prompt stays, with no mark, no `system` record and no note of an interruption. Later in a
# session both prompts name one parent, which tells a branch that was left. At a session's start both have `parentUuid`
# null: two roots, of which the model has seen the second alone. Who reads the records in order takes both for the
# person's words ("We use Kafka." and "We use Kafka. No, NATS.").
# Output seen:
#   prompts: 4, parents: null null P P; notes of an interruption: 0; the last request holds 2 of them
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @anthropic-ai/claude-code@2.1.332
}
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home" "$folder/project"
program="$(ls "$CLIENTS"/node_modules/@anthropic-ai/claude-code-linux-*/claude | head -1)"
python3 - "$program" "$folder" <<'PYTHON'
import json, os, pty, select, subprocess, sys, time
from pathlib import Path

program, folder = sys.argv[1], Path(sys.argv[2])
home, project, log = folder / "home", folder / "project", folder / "requests.jsonl"
trusted = {str(project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
known = {"hasCompletedOnboarding": True, "theme": "dark", "projects": trusted}
known["customApiKeyResponses"] = {"approved": ["none"], "rejected": []}
(home / ".claude.json").write_text(json.dumps(known))
env = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "none"}
env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{(folder / 'port').read_text()}"}
env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
terminal, inner = pty.openpty()
client = subprocess.Popen([program], cwd=project, env=env, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
os.close(inner)
shown = b""


def press(key: bytes, done) -> None:
    """Press a key each second until something is done."""
    global shown
    until = time.monotonic() + 180
    while time.monotonic() < until:
        end = time.monotonic() + 1
        while (left := end - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 1 << 16)
        if done():
            return
        os.write(terminal, key)
    sys.exit(f"nothing came of {key!r}")


def records() -> list[dict]:
    files = home.glob(".claude/projects/*/*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def ask(text: str) -> None:
    """Paste a prompt, and send it until the model is asked it."""
    before = len(log.read_text()) if log.exists() else 0
    os.write(terminal, b"\x1b[200~" + text.encode() + b"\x1b[201~")
    press(b"\r", lambda: log.exists() and text.split("\n")[0].strip() in log.read_text()[before:])


def take_back_and_send(text: str, more: str, answers: int) -> None:
    global shown
    release = folder / f"released-{answers}"
    ask(f"{text}\nHOLD {release}")
    shown = b""
    press(b"\x1b", lambda: b"again to clear" in shown)
    release.touch()
    ask(f" {more}")
    press(b"", lambda: sum(record["type"] == "assistant" for record in records()) >= answers)


try:
    press(b"", lambda: b"\x1b[?2004h" in shown)
    take_back_and_send("We use Kafka.", "No, NATS.", 1)
    take_back_and_send("We use Oracle.", "No, DuckDB.", 2)
finally:
    client.kill()
    client.wait()
prompts = [record for record in records() if record["type"] == "user"]
parents = [record["parentUuid"] for record in prompts]
first, second, third, fourth = parents
named = ["null" if parent is None else "P" for parent in parents]
notes = sum("interrupted" in json.dumps(record.get("message")) for record in records())
last = json.loads(log.read_text().splitlines()[-1])["body"]["messages"]
asked = json.dumps([message for message in last if message["role"] == "user"]).count("HOLD")
print(f"prompts: {len(prompts)}, parents: {' '.join(named)}; notes of an interruption: {notes}; the last request holds {asked} of them")
if (named, third, notes, asked) != (["null", "null", "P", "P"], fourth, 0, 2):
    sys.exit("the behaviour has changed")
PYTHON
