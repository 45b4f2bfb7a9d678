#!/bin/sh
# check_examples.sh: the data sets in examples/ are what they claim to be.
#
# Every line of examples/*.jsonl is one compact {"messages": ...} object with a user and an
# assistant turn, LF line ends, no byte order mark; no user question of loam-valid.jsonl is in
# loam-train.jsonl. Prints file:line and what is wrong; exits 1 on any finding.
set -eu
cd "$(dirname "$0")/.."

awk '
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failed = 1 }
{
    if (index($0, "\r")) bad("carriage return; lines end in LF")
    if ($0 !~ /^\{"messages":\[\{"role":.*\}\]\}$/) bad("not a {\"messages\":[...]} object")
    if ($0 !~ /"role":"user","content":"[^"]/) bad("no user turn")
    if ($0 !~ /"role":"assistant","content":"[^"]/) bad("no assistant turn")
    rest = $0
    while (match(rest, /"role":"user","content":"[^"]*"/)) {
        question = substr(rest, RSTART + 25, RLENGTH - 26)
        rest = substr(rest, RSTART + RLENGTH)
        if (FILENAME ~ /train/) trained[question] = FNR
        else if (question in trained) bad("also a question of loam-train.jsonl:" trained[question])
    }
}
END { exit failed }
' examples/loam-train.jsonl examples/loam-valid.jsonl

if command -v iconv >/dev/null 2>&1; then
    for file in examples/*.jsonl; do
        iconv -f UTF-8 -t UTF-8 "$file" >/dev/null || { echo "$file: not UTF-8"; exit 1; }
    done
fi
