"""Serve a stand-in for a model on 127.0.0.1, so that the scripts beside it can run a coding agent without a key.

    python3 stub_model_server.py PORT_FILE [REQUESTS_FILE]

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, streamed or not. It answers the last
user message: the n-th line `CALL tool {json}` in it is the n-th tool call of the turn (for Codex
`CALL namespace/tool {json}`); if none is left, the answer is the
text after `SAY ` in it, else "Understood.". Lines of `SLEEP seconds` delay each answer, and lines of `HOLD path` until
there is such a file. The requests are written to REQUESTS_FILE, one JSON document a line.
"""

import json
import re
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def text_of(content) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part.get("text", "")) for part in content or [] if isinstance(part, dict)
    )


def last_turn(body: dict) -> tuple[str, int]:
    """Return the last user text and how many tool results follow it."""
    asked, results = "", 0
    turns = body.get("messages") or body.get("contents") or body.get("input") or []
    for turn in (
        [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
    ):
        parts = turn.get("content", turn.get("parts", ""))
        kinds = (
            [part for part in parts if isinstance(part, dict)]
            if isinstance(parts, list)
            else []
        )
        answered = sum(
            part.get("type") == "tool_result" or "functionResponse" in part
            for part in kinds
        )
        answered += turn.get("role") == "tool" or str(turn.get("type", "")).endswith(
            "call_output"
        )
        if answered:
            results += answered
        elif turn.get("role") == "user":
            text = text_of(parts)
            # what a client adds beside a tool's result opens no turn
            if not re.fullmatch(
                r"\s*<system-reminder>.*</system-reminder>\s*"
                r"|Additional context from preToolUse hook:.*",
                text,
                re.DOTALL,
            ):
                asked, results = text, 0
    return asked, results


def decide(body: dict) -> tuple[str, str | None, dict]:
    """Return the answer's text, or a tool's name and its arguments."""
    asked, results = last_turn(body)
    for seconds in re.findall(r"^SLEEP ([\d.]+)", asked, re.MULTILINE):
        time.sleep(float(seconds))
    for path in re.findall(r"^HOLD (\S+)", asked, re.MULTILINE):
        while not Path(path).exists():
            time.sleep(0.2)
    calls = re.findall(r"^CALL (\S+) (\{.*\})\s*$", asked, re.MULTILINE)
    if results < len(calls):
        return "", calls[results][0], json.loads(calls[results][1])
    said = re.search(r"^SAY (.*)$", asked, re.MULTILINE)
    return (said[1] if said else "Understood."), None, {}


def count_tokens(body: dict) -> int:
    """Return about how many tokens a request has, since clients compact only what that makes smaller."""
    return len(json.dumps(body)) // 4


def anthropic(text: str, tool: str | None, arguments: dict, stream: bool, tokens: int):
    """Return the answer, or its stream, in Anthropic's form."""
    block = {
        "type": "tool_use",
        "id": f"toolu_{time.time_ns()}",
        "name": tool,
        "input": arguments,
    }
    block = block if tool else {"type": "text", "text": text}
    message = {
        "id": f"msg_{time.time_ns()}",
        "type": "message",
        "role": "assistant",
        "model": "stub",
    }
    usage, stop = (
        {"input_tokens": tokens, "output_tokens": 5},
        "tool_use" if tool else "end_turn",
    )
    if not stream:
        return message | {
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
    empty = block | ({"input": {}} if tool else {"text": ""})
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    delta = delta if tool else {"type": "text_delta", "text": text}
    message |= {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]


def responses(text: str, tool: str | None, arguments: dict, stream: bool, tokens: int):
    """Return the answer, or its stream, in the form of OpenAI Responses."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{time.time_ns()}",
        "content": content,
    }
    if tool:
        item = {
            "type": "function_call",
            "call_id": f"call_{time.time_ns()}",
            "name": tool,
        }
        item["arguments"] = json.dumps(arguments)
        if "/" in tool:
            item["namespace"], item["name"] = tool.split("/")
    done = {
        "id": f"resp_{time.time_ns()}",
        "output": [item],
        "usage": {
            "input_tokens": tokens,
            "output_tokens": 5,
            "total_tokens": tokens + 5,
        },
        "status": "completed",
    }
    if not stream:
        return done
    return [
        {"type": "response.created", "response": {"id": done["id"]}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]


def chat(text: str, tool: str | None, arguments: dict, stream: bool, tokens: int):
    """Return the answer, or its stream, in the form of OpenAI Chat Completions."""
    message: dict = {"role": "assistant", "content": text}
    if tool:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        calls = [
            {
                "index": 0,
                "id": f"call_{time.time_ns()}",
                "type": "function",
                "function": function,
            }
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    end = "tool_calls" if tool else "stop"
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 5,
        "total_tokens": tokens + 5,
    }
    base = {
        "id": f"c{time.time_ns()}",
        "created": int(time.time()),
        "model": "stub",
        "usage": usage,
    }
    kind, field = (
        ("chat.completion.chunk", "delta") if stream else ("chat.completion", "message")
    )
    first = base | {
        "object": kind,
        "choices": [
            {"index": 0, field: message, "finish_reason": None if stream else end}
        ],
    }
    last = base | {
        "object": kind,
        "choices": [{"index": 0, "delta": {}, "finish_reason": end}],
    }
    return [first, last] if stream else first


def gemini(text: str, tool: str | None, arguments: dict, stream: bool, tokens: int):
    """Return the answer, or its stream, in Gemini's form."""
    part = (
        {"functionCall": {"name": tool, "args": arguments}} if tool else {"text": text}
    )
    usage = {
        "promptTokenCount": tokens,
        "candidatesTokenCount": 5,
        "totalTokenCount": tokens + 5,
    }
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": [part]},
        "finishReason": "STOP",
    }
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}
    return [answer] if stream else answer


class Stub(BaseHTTPRequestHandler):
    """Answers the endpoints that the agents call."""

    def do_GET(self) -> None:
        """List the one model."""
        self.send(
            []
            if "models" not in self.path
            else {"object": "list", "data": [{"id": "stub", "object": "model"}]}
        )

    def do_POST(self) -> None:
        """Answer a request to the model."""
        body = json.loads(
            self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}"
        )
        path = self.path.split("?")[0]
        if len(sys.argv) > 2:
            with Path(sys.argv[2]).open("a") as log:
                log.write(json.dumps({"path": path, "body": body}) + "\n")
        endings = {
            "/messages": anthropic,
            "/responses": responses,
            "/chat/completions": chat,
            "enerateContent": gemini,
        }
        speak = next(
            (speak for ending, speak in endings.items() if path.endswith(ending)), None
        )
        if speak is None:
            self.send({"input_tokens": 10, "totalTokens": 10})
            return
        stream = bool(body.get("stream")) or "stream" in path
        self.send(
            speak(*decide(body), stream, count_tokens(body)),
            named=speak in (anthropic, responses),
            done=speak is chat,
        )

    def send(self, answer, named: bool = False, done: bool = False) -> None:
        """Send a JSON answer, or the events of a stream."""
        text, kind = json.dumps(answer), "application/json"
        if isinstance(answer, list) and answer:
            kind = "text/event-stream"
            lines = [
                (f"event: {each['type']}\n" if named else "")
                + f"data: {json.dumps(each)}\n\n"
                for each in answer
            ]
            text = "".join(lines) + ("data: [DONE]\n\n" if done else "")
        # a client that was interrupted waits for no answer
        with suppress(ConnectionError):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    def log_message(self, *_) -> None:
        """Print nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    Path(sys.argv[1]).write_text(str(server.server_port))
    server.serve_forever()
