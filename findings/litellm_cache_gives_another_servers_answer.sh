#!/usr/bin/env bash
# litellm 1.110.2: its cache answers with what another server said, and to other settings than those that were asked.
#
# One would guess: two calls share an answer of the cache if the request that would be sent is the same and goes to the same
# place; a setting that the cache does not know makes a call of its own.
# What happens: the key is made of the model's name, the messages and the parameters that OpenAI's own API has. `api_base` is
# not in it: of two servers that both call their model "m" the second is never asked. Nor is what only a server of one's
# own knows, as `min_p`, `chat_template_kwargs` or anything in `extra_body`: with thinking switched on or off, or with
# another grammar, the first answer comes back. `top_k`, a name that is known, does make another call. (A hit needs fastapi, orjson
# and soundfile, which litellm does not install, else it raises ModuleNotFoundError.)
# Output seen:
#   asked server 1: server 1, call 1
#   asked server 2: server 1, call 1
#   min_p=0.2: server 1, call 1
#   chat_template_kwargs: server 1, call 1
#   extra_body, a grammar: server 1, call 1
#   top_k=2: server 1, call 2
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q litellm==1.110.2 openai==3.57.0 fastapi==0.165.0 soundfile==0.14.0 orjson==3.13.0 numpy==2.4.6
cat > "$folder/try.py" <<'PYTHON'
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import litellm
from litellm.caching.caching import Cache


class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.calls += 1
        text = f"server {self.server.number}, call {self.server.calls}"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        answer["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(number):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.number, server.calls = number, 0
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def ask(url, **settings):
    messages = [{"role": "user", "content": "Which server are you?"}]
    call = {"model": "openai/m", "messages": messages, "api_key": "none", "caching": True}
    return litellm.completion(**call, api_base=url, **settings).choices[0].message.content


litellm.cache = Cache(type="local")
first, second = serve(1), serve(2)
CASES = [
    ("asked server 1", first, {}),
    ("asked server 2", second, {}),
    ("min_p=0.2", first, {"min_p": 0.2}),
    ("chat_template_kwargs", first, {"chat_template_kwargs": {"enable_thinking": False}}),
    ("extra_body, a grammar", first, {"extra_body": {"guided_choice": ["yes", "no"]}}),
    ("top_k=2", first, {"top_k": 2}),
]
seen = []
for name, url, settings in CASES:
    seen.append(ask(url, **settings))
    print(f"{name}: {seen[-1]}")
if seen != ["server 1, call 1"] * 5 + ["server 1, call 2"]:
    sys.exit("the behaviour has changed")
PYTHON
env HOME="$folder" LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/v/bin/python" "$folder/try.py" 2> "$folder/log" ||
    { tail -n 5 "$folder/log"; exit 1; }
