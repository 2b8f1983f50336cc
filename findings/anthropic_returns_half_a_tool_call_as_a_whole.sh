#!/usr/bin/env bash
# anthropic 2.14.0 (Python SDK): a stream that ends early gives a tool call with half of its arguments, without an error.
#
# One would guess: a stream without `message_stop` (a proxy that gives up, a server that restarts) raises, as the Responses
# API of the openai package does; or the call is left out, since its JSON is not complete.
# What happens: `get_final_message` returns what came. Its `input` is the JSON as far as it can be read, closed by the
# SDK: of `"older_than_days": 30` the number 3 stays if the pieces end there, and a list that had begun is empty. It
# is a valid ToolUseBlock. Only `stop_reason` says more: None instead of "tool_use". Text is cut likewise. So a loop
# that runs the calls it finds deletes what is older than three days. With openai 3.57.0 the streams of Chat
# Completions end as quietly, with a `finish_reason` of None, and `responses.stream` raises.
# Output seen:
#   ended after 30:  {'folder': '/old', 'older_than_days': 30}, stop_reason None
#   ended within 30: {'folder': '/old', 'older_than_days': 3}, stop_reason None
#   ended in a list: {'folder': '/old', 'older_than_days': 30, 'except': []}, stop_reason None
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q anthropic==2.14.0
"$folder/v/bin/python" - <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic

WAYS = {
    "ended after 30": ('{"folder": "/old", "older_than_days": 30', {"folder": "/old", "older_than_days": 30}),
    "ended within 30": ('{"folder": "/old", "older_than_days": 3', {"folder": "/old", "older_than_days": 3}),
    "ended in a list": (
        '{"folder": "/old", "older_than_days": 30, "except": ["/old/ke',
        {"folder": "/old", "older_than_days": 30, "except": []},
    ),
}
USAGE = {"input_tokens": 3, "output_tokens": 1}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": USAGE}
CALL = {"type": "tool_use", "id": "t", "name": "clean", "input": {}}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][0]["content"]
        piece = {"type": "input_json_delta", "partial_json": WAYS[asked][0]}
        events = [
            {"type": "message_start", "message": MESSAGE | {"stop_reason": None, "stop_sequence": None}},
            {"type": "content_block_start", "index": 0, "content_block": CALL},
            {"type": "content_block_delta", "index": 0, "delta": piece},
        ]
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
changed = False
for way, (_, expected) in WAYS.items():
    prompt = {"role": "user", "content": way}
    with client.messages.stream(model="x", max_tokens=99, messages=[prompt]) as stream:
        answer = stream.get_final_message()
    (call,) = answer.content
    changed |= (call.type, call.input, answer.stop_reason) != ("tool_use", expected, None)
    print(f"{way}: {call.input}, stop_reason {answer.stop_reason}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
