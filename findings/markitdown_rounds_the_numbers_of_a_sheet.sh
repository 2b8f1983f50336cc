#!/usr/bin/env bash
# markitdown 0.1.9 with pandas 3.1.1 and openpyxl 3.1.5: a sheet's numbers keep seven digits, and "NA" becomes NaN.
#
# One would guess: a cell comes out as the sheet shows it, or with all its digits; text is text, and an empty cell is empty.
# What happens: the sheet is read as a table of pandas, whose columns have one type each and are printed with six places. One
# small rate in a column, and the amount of 12345678.25 beside it is 1.234568e+07. True beside a number is 1.0, and one empty cell
# makes 3 of them 3.0. The text "NA" (a region, a name) and an empty cell are both "NaN". A "|" in a cell is not escaped and
# begins a column, which the same package does escape in CSV files.
# Output seen:
#   | NaN | 1.234568e+07 | 3.0 |
#   | x|y | 1.250000e-04 | NaN |
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q "markitdown[xlsx]==0.1.9" pandas==3.1.1 openpyxl==3.1.5
cd "$folder"
cat > try.py <<'PYTHON'
import sys

from markitdown import MarkItDown
from openpyxl import Workbook

book = Workbook()
for row in (["region", "amount", "pieces"], ["NA", 12345678.25, 3], ["x|y", 0.000125, None]):
    book.active.append(row)
book.save("sheet.xlsx")
rows = MarkItDown().convert("sheet.xlsx").text_content.splitlines()[-2:]
print("\n".join(rows))
if rows != ["| NaN | 1.234568e+07 | 3.0 |", "| x|y | 1.250000e-04 | NaN |"]:
    sys.exit("the behaviour has changed")
PYTHON
env HOME="$folder" "$folder/v/bin/python" try.py 2> log || { tail -n 5 log; exit 1; }
