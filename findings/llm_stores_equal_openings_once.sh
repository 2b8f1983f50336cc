#!/usr/bin/env bash
# llm 0.36 (with llm-echo 0.5): its log keeps a message once for all conversations that begin alike, and the tables that
# its readers know are empty.
#
# One would guess: logs.db has a row in `responses` for each answer and in `conversations` for each talk, as in 0.30, and
# after an upgrade either both hold everything or the old rows are moved.
# What happens: messages are known by a hash of their content and of all before them. Two conversations that begin with the
# same words share those rows, and a message has neither a time nor a conversation of its own: both stand in `turns`,
# whose chain of parents leads to the words. If a fragment (`-f`) is used, the prompt's text is NULL and its pieces are
# JSON beside it. `responses` and `conversations` are still there. In a database of 0.30 they keep the old rows and get
# no new ones, so a reader of these tables sees a history that ends on the day of the upgrade; the old rows are copied
# into `messages` only for a conversation that is continued, and have no turn there.
# Output seen:
#   two talks of "Hello.": 2 turns, 1 message of the person, 0 responses
#   with a fragment: text None, payload {"text_ref": [{"fragment": 1}, {"literal": "\nSum it up."}]}
#   a talk of 0.30, continued: responses ['Before.'], messages ['Before.', 'After.'], turns 1
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
for pair in 0.30:0.4 0.36:0.5; do
    version="${pair%:*}"
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install -q "llm==$version" "llm-echo==${pair#*:}" httpx==0.28.1
done
say() {  # VERSION DATABASE and the arguments: ask the model that repeats
    "$folder/$1/bin/llm" -m echo -d "$folder/$2.db" "${@:3}" < /dev/null > /dev/null
}
printf 'the rota' > "$folder/rota.txt"
export LLM_USER_PATH="$folder/user"
say 0.36 new "Hello."
say 0.36 new "Hello."
say 0.36 fragment -f "$folder/rota.txt" "Sum it up."
say 0.30 old "Before."
say 0.36 old -c "After."
python3 - "$folder" <<'PYTHON'
import sqlite3
import sys

SAID = "SELECT text, payload FROM parts JOIN messages ON hash = message_hash WHERE role = 'user' ORDER BY id"


def ask(name, query):
    return sqlite3.connect(f"{sys.argv[1]}/{name}.db").execute(query).fetchall()


def count(name, table):
    return ask(name, f"SELECT COUNT(*) FROM {table}")[0][0]


new = count("new", "turns"), len(ask("new", SAID)), count("new", "responses")
print("two talks of \"Hello.\": {} turns, {} message of the person, {} responses".format(*new))
((text, payload),) = ask("fragment", SAID)
print(f"with a fragment: text {text}, payload {payload}")
responses = [prompt for (prompt,) in ask("old", "SELECT prompt FROM responses")]
messages = [text for text, _ in ask("old", SAID)]
print(f"a talk of 0.30, continued: responses {responses}, messages {messages}, turns {count('old', 'turns')}")
kept = new, text, "text_ref" in payload, responses, messages, count("old", "turns")
if kept != ((2, 1, 0), None, True, ["Before."], ["Before.", "After."], 1):
    sys.exit("the behaviour has changed")
PYTHON
