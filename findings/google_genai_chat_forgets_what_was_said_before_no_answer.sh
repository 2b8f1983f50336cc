#!/usr/bin/env bash
# google-genai 3.6.1: what a person said before an answer without text is never sent to the model again.
#
# One would guess: a chat sends all that was said so far; an answer that came empty is left out, or the person's turn
# stays without one.
# What happens: if an answer has no content, its prompt is taken out of what the next request sends, without a sign. An
# answer has none if the budget of tokens went into thinking (MAX_TOKENS) or a filter stopped it. "Never delete the
# archive." is unknown to the model from then on. An answer whose text is "" is kept, and so is its prompt.
# `get_history()` shows all turns; `get_history(curated=True)` shows what is sent.
# Output seen:
#   asked: My name is Ann.
#   asked: My name is Ann. | Never delete the archive.
#   asked: My name is Ann. | Tidy up.
#   get_history: My name is Ann. | Never delete the archive. | Tidy up.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q google-genai==3.6.1
"$folder/v/bin/python" - <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google import genai

PROMPTS = ["My name is Ann.", "Never delete the archive.", "Tidy up."]
FILLED = {"content": {"role": "model", "parts": [{"text": "Noted."}]}, "finishReason": "STOP"}
ANSWERS = [FILLED, {"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}, FILLED]
asked = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        turns = json.loads(self.rfile.read(int(self.headers["content-length"])))["contents"]
        asked.append([turn["parts"][0]["text"] for turn in turns if turn["role"] == "user"])
        body = json.dumps({"candidates": [ANSWERS[len(asked) - 1]]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
options = {"base_url": f"http://127.0.0.1:{server.server_port}"}
client = genai.Client(api_key="none", http_options=options)
chat = client.chats.create(model="stub")
for prompt in PROMPTS:
    chat.send_message(prompt)
for texts in asked:
    print("asked:", " | ".join(texts))
kept = [turn.parts[0].text for turn in chat.get_history() if turn.role == "user"]
print("get_history:", " | ".join(kept))
if asked != [PROMPTS[:1], PROMPTS[:2], [PROMPTS[0], PROMPTS[2]]] or kept != PROMPTS:
    sys.exit("the behaviour has changed")
PYTHON
