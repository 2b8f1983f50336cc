#!/usr/bin/env bash
# litellm 1.110.2: `trim_messages` keeps half a tool's result without its call, and may drop the person's question.
#
# One would guess: what is too long loses its oldest turns, a call and its result go together, and the system message and
# the last question stay, or an error says that they do not fit.
# What happens: messages go one by one, and the oldest that is kept loses its middle. Which limit parts a call from its
# result cannot be foreseen: here both are kept at 60 tokens, and at 50 and at 100 only the result, cut, as the answer to
# a `tool_call_id` that no message has. OpenAI's and Anthropic's interfaces refuse that. If the system message alone
# is too long, it is cut and all else is dropped, the question too: the model gets rules and nothing to answer.
# Output seen:
#   400 tokens: system, user, assistant with a call, tool, assistant, user
#   100 tokens: system, tool (cut), assistant, user
#   60 tokens: system, assistant with a call, tool (cut), assistant, user
#   50 tokens: system, tool (cut), assistant, user
#   a long system message: system (cut)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q --no-compile litellm==1.110.2
export LITELLM_LOCAL_MODEL_COST_MAP=True
"$folder/v/bin/python" - <<'PYTHON'
import sys

from litellm.utils import trim_messages

call = {"id": "t1", "type": "function", "function": {"name": "recall", "arguments": "{}"}}
talk = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Question one. " * 30},
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "t1", "content": "A result. " * 30},
    {"role": "assistant", "content": "It was tabs."},
    {"role": "user", "content": "And now?"},
]
rules = [{"role": "system", "content": "Some rule. " * 200}, {"role": "user", "content": "What is our port?"}]
texts = {message["content"] for message in talk + rules}


def describe(messages, tokens):
    told = []
    for message in trim_messages(messages, model="gpt-4o", max_tokens=tokens):
        mark = " with a call" if message.get("tool_calls") else " (cut)" if message["content"] not in texts else ""
        told.append(message["role"] + mark)
    return told


seen = {f"{tokens} tokens": describe(talk, tokens) for tokens in (400, 100, 60, 50)}
seen["a long system message"] = describe(rules, 50)
for name, told in seen.items():
    print(f"{name}: {', '.join(told)}")
whole = ["system", "user", "assistant with a call", "tool", "assistant", "user"]
orphan = ["system", "tool (cut)", "assistant", "user"]
pair = ["system", "assistant with a call", "tool (cut)", "assistant", "user"]
if list(seen.values()) != [whole, orphan, pair, orphan, ["system (cut)"]]:
    sys.exit("the behaviour has changed")
PYTHON
