#!/usr/bin/env bash
# rank-bm25 0.2.2: in a memory of few notes BM25Okapi ranks notes with the words of a question below notes without them.
#
# One would guess: a word of the question that a note holds raises its score, or, if most notes hold it, adds nothing.
# What happens: a word in exactly half of the notes weighs 0, one in more than half gets a share of the *mean* weight of all
# words, and that mean is below zero if most words are common, as they are in a few notes about one thing. A hit then
# loses points, and what has none of the words comes first. Of two notes the only one with "postgres" scores 0, like
# the other. And a common word may outweigh: "we use" finds a note without "use" first, since it is short. BM25L and
# BM25Plus of the same package, bm25s and Lucene take weights that are never below zero.
# Output seen:
#   postgres, of 2 notes: [0.0, 0.0]
#   postgres, of 3 notes: [-0.16, -0.16, 0.0]
#   first for it: tea we
#   first for "we use": we like tea
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q rank-bm25==0.2.2
"$folder/v/bin/python" - <<'PYTHON'
import sys

from rank_bm25 import BM25Okapi

PAIR = ["postgres chosen", "tea liked"]
THREE = ["postgres we", "we postgres", "tea we"]
FOUR = ["we use tabs in python", "we use spaces in yaml", "we deploy on friday", "we like tea"]


def score(notes, question):
    return [round(float(value), 2) for value in BM25Okapi([note.split() for note in notes]).get_scores([question])]


def find_first(notes, question):
    return BM25Okapi([note.split() for note in notes]).get_top_n(question.split(), notes, 1)[0]


scores = score(PAIR, "postgres"), score(THREE, "postgres")
first = find_first(THREE, "postgres"), find_first(FOUR, "we use")
print("postgres, of 2 notes: {}\npostgres, of 3 notes: {}".format(*scores))
print('first for it: {}\nfirst for "we use": {}'.format(*first))
if (scores, first) != (([0.0, 0.0], [-0.16, -0.16, 0.0]), ("tea we", "we like tea")):
    sys.exit("the behaviour has changed")
PYTHON
