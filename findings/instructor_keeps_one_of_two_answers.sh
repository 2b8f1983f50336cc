#!/usr/bin/env bash
# instructor 1.17.0 with openai 3.3.0: if a model answers twice, the first of two tool calls is kept, or the last of two JSON
# objects, and the other is gone without an error.
#
# One would guess: where one object was asked for, a second one is an error and asked anew, as an answer that does not fit the
# model is; or the choice is the same in all modes. An answer that a filter stopped raises, as one that was cut does.
# What happens: with Mode.TOOLS the first call is taken, with Mode.MD_JSON the last object of a text, and Mode.JSON asks again.
# A model that puts two facts into two calls, as it does where parallel calls are on, tells one of them. An answer with
# `finish_reason` "length" raises; one with "content_filter" is taken as whole. `Iterable[Fact]` takes a list.
# Output seen:
#   TOOLS, two calls: first
#   MD_JSON, two objects: second
#   JSON, two objects: InstructorRetryException
#   JSON, length: IncompleteOutputException
#   JSON, content_filter: first
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q --no-compile instructor==1.17.0 openai==3.3.0
"$folder/v/bin/python" - 2> "$folder/errors.txt" <<'PYTHON' || { tail -n 3 "$folder/errors.txt"; exit 1; }
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import instructor
import openai
from instructor import Mode
from pydantic import BaseModel


class Fact(BaseModel):
    text: str


ONE, TWO = '{"text": "first"}', '{"text": "second"}'
CASES = {
    "TOOLS, two calls": (Mode.TOOLS, [ONE, TWO], "tool_calls", "first"),
    "MD_JSON, two objects": (Mode.MD_JSON, f"{ONE}\n{TWO}", "stop", "second"),
    "JSON, two objects": (Mode.JSON, f"{ONE}\n{TWO}", "stop", "InstructorRetryException"),
    "JSON, length": (Mode.JSON, ONE, "length", "IncompleteOutputException"),
    "JSON, content_filter": (Mode.JSON, ONE, "content_filter", "first"),
}
said = {}


def make_message():
    if isinstance(said["answer"], str):
        return {"role": "assistant", "content": said["answer"]}
    calls = [
        {"id": f"t{number}", "type": "function", "function": {"name": "Fact", "arguments": arguments}}
        for number, arguments in enumerate(said["answer"])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        choice = {"index": 0, "message": make_message(), "finish_reason": said["reason"]}
        answer = {"id": "a", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
changed = False
for told, (mode, answer, reason, expected) in CASES.items():
    said.update(answer=answer, reason=reason)
    ask = instructor.from_openai(client, mode=mode).chat.completions.create
    prompt = [{"role": "user", "content": "What is known?"}]
    try:
        seen = ask(model="x", response_model=Fact, messages=prompt, max_retries=1).text
    except Exception as error:
        seen = type(error).__name__
    changed |= seen != expected
    print(f"{told}: {seen}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
