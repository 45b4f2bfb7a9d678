#!/bin/sh
# test_resume.sh: runs that stop and go on, configuration files, loam plan, as a user types them.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

few="--data $valid_data --max-seq-length 64 --overlong truncate --rank 2 --num-layers 1
--grad-accumulation-steps 1 --valid-share 0 --learning-rate 1e-3"

# shellcheck disable=SC2086 # $few is a list of words
train() {
    capture "$LOAM" train "$model" $few "$@"
}

# ---- going on -------------------------------------------------------------------------------

train -o "$dir/whole.gguf" --iters 60 --save-every 20 --keep 1
check "train succeeds" [ "$rc" -eq 0 ]
for file in whole.gguf whole-state.gguf whole.yaml whole-metrics.jsonl whole-step40.gguf \
    whole-step40-state.gguf; do
    check "$file is there" [ -s "$dir/$file" ]
done
check "older checkpoints are not" [ ! -e "$dir/whole-step20.gguf" ]
check "the metrics are JSON" "$JSON_LINES" <"$dir/whole-metrics.jsonl"
check "a line for each step" [ "$(grep -c '"event":"step"' "$dir/whole-metrics.jsonl")" -eq 60 ]
check "memory by kind is printed" grep -q "activations .* tokens at most" "$dir/out"

# Ctrl-C, then the very command that the program printed.
# shellcheck disable=SC2086 # $few is a list of words
"$LOAM" train "$model" $few -o "$dir/half.gguf" --iters 60 >"$dir/out" 2>"$dir/err" &
pid=$!
waited=0
while [ $waited -lt 600 ] && ! grep -q '^step 3/' "$dir/out"; do
    sleep 0.1
    waited=$((waited + 1))
done
kill -INT $pid
wait $pid
rc=$?
check "after Ctrl-C the status is 130" [ "$rc" -eq 130 ]
command=$(sed -n 's/^loam train: to go on: loam //p' "$dir/err")
check "a command is printed" [ -n "$command" ]
capture sh -c "'$LOAM' $command"
check "it goes on" [ "$rc" -eq 0 ]
check "to the same adapter" cmp -s "$dir/half.gguf" "$dir/whole.gguf"
check "every step is in the metrics once" \
    [ "$(grep -c '"event":"step"' "$dir/half-metrics.jsonl")" -eq 60 ]

cp "$dir/half-state.gguf" "$dir/before-state.gguf"
train -o "$dir/half.gguf" --iters 60 --resume "$dir/half.gguf" --seed 3
refused "another seed" 2 "--seed is 3 and was 0"
train -o "$dir/half.gguf" --iters 61 --resume "$dir/half.gguf"
refused "more steps" 2 "--iters"
check "a refusal leaves the state" cmp -s "$dir/half-state.gguf" "$dir/before-state.gguf"
train -o "$dir/half.gguf" --iters 61 --resume "$dir/half.gguf" --override
check "--override goes on" [ "$rc" -eq 0 ]
check "for one step" grep -q "^step 61/61 " "$dir/out"
train -o "$dir/half.gguf" --iters 60 --resume "$model"
refused "a model as state" 1 "not the state of a run"

# ---- configuration --------------------------------------------------------------------------

mv "$dir/whole.gguf" "$dir/first.gguf"
capture "$LOAM" train -c "$dir/whole.yaml"
check "the configuration of a run runs" [ "$rc" -eq 0 ]
check "and gives the same adapter" cmp -s "$dir/whole.gguf" "$dir/first.gguf"
capture "$LOAM" train --config "$dir/whole.yaml" --rank 4 --iters 1 -o "$dir/other.gguf" --json
check "flags win" [ "$rc" -eq 0 ]
check "the file of the command line" [ -s "$dir/other.gguf" ]
check "one step" [ "$(tail -n 1 "$dir/out" | "$JSON_LINES" steps)" = 1 ]
check "its own configuration says so" grep -q '^rank: 4$' "$dir/other.yaml"
cat >"$dir/list.yaml" <<EOF
model: $model
data: $valid_data
target-modules: [attn_q, attn_v]
learning-rate: 1e-3
iters: 1
valid-share: 0
num-layers: 1
max-seq-length: 64
rslora: true
EOF
cp "$dir/list.yaml" "$dir/list-before.yaml"
capture "$LOAM" train -c "$dir/list.yaml" -o "$dir/list.gguf"
check "lists work" [ "$rc" -eq 0 ]
check "a configuration that is used is not written over" \
    cmp -s "$dir/list.yaml" "$dir/list-before.yaml"
capture "$LOAM" train -c "$dir/list.yaml" -o "$dir/listed.gguf"
check "their values arrive" grep -q '^target-modules: "attn_q,attn_v"$' "$dir/listed.yaml"
check "flags without a value work" grep -q '^rslora: true$' "$dir/list.yaml"

bad_config() {
    printf '%b' "$2" >"$dir/bad.yaml"
    capture "$LOAM" train -c "$dir/bad.yaml" -o "$dir/bad.gguf"
    refused "$1" 2 "$3"
}
bad_config "a misspelt key" "learning-rat: 1\n" "did you mean 'learning-rate'?"
bad_config "a key like no other" "flux: 1\n" "unknown key 'flux'"
bad_config "a configuration in a configuration" "config: x.yaml\n" "unknown key 'config'"
bad_config "a bad value" "model: x\nrank: eight\n" "--rank eight"
bad_config "a flag that is no truth" "rslora: 3\n" "expected true or false"
bad_config "a nested value" "rank:\n  a: 1\n" "line 2"
bad_config "a key twice" "rank: 1\nrank: 2\n" "line 2"
bad_config "no mapping" "- 1\n" "line 1"
bad_config "no YAML" "data: [\n" "not YAML"
bad_config "no model" "data: x\n" "MODEL.gguf is missing"
capture "$LOAM" train -c "$dir/nowhere.yaml"
refused "no file" 2 "nowhere.yaml"

# ---- plan -----------------------------------------------------------------------------------

# shellcheck disable=SC2086 # $few is a list of words
capture "$LOAM" plan "$model" $few --iters 60
check "plan succeeds" [ "$rc" -eq 0 ]
for word in "^memory .* free" "weights .*mapped" "^steps *60, " "^time *about "; do
    check "plan says '$word'" grep -q "$word" "$dir/out"
done
# shellcheck disable=SC2086 # $few is a list of words
capture "$LOAM" plan "$model" $few --json
check "plan --json is JSON" "$JSON_LINES" <"$dir/out"
check "it fits" [ "$("$JSON_LINES" fits <"$dir/out")" = true ]
capture "$LOAM" plan "$model"
refused "plan without data" 2 "--data FILE is missing"

finish
