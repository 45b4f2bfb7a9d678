#!/bin/sh
# test_run.sh: training, evaluation and generation on the bundled model, as a user types them.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

few="--data $valid_data --max-seq-length 128 --batch-size 2 --grad-accumulation-steps 1 --rank 4"

# shellcheck disable=SC2086 # $few is a list of words
train() {
    capture "$LOAM" train "$model" $few "$@"
}

# ---- training -------------------------------------------------------------------------------

train -o "$dir/a.gguf" --iters 3 --learning-rate=1e-3 --seed 7
check "train succeeds" [ "$rc" -eq 0 ]
check "the adapter is there" [ -s "$dir/a.gguf" ]
check "every one of the first steps has a line" [ "$(grep -c '^step [1-3]/3 ' "$dir/out")" -eq 3 ]
check "the end says how to use it" grep -q "llama-server -m .* --lora $dir/a.gguf" "$dir/out"
check "the end says what Ollama needs" grep -q "ADAPTER $dir/a.gguf" "$dir/out"
check "no escape sequences outside a terminal" [ "$(tr -cd '\033\r' <"$dir/out" | wc -c)" -eq 0 ]
check "nothing on stderr" [ ! -s "$dir/err" ]

train --adapter-path="$dir/b.gguf" --iters 3 --learning-rate 1e-3 --seed 7 --json
check "train --json succeeds" [ "$rc" -eq 0 ]
check "every line is JSON" "$JSON_LINES" <"$dir/out"
"$JSON_LINES" event <"$dir/out" >"$dir/events"
check "one start" [ "$(grep -c '^start$' "$dir/events")" -eq 1 ]
check "three steps" [ "$(grep -c '^step$' "$dir/events")" -eq 3 ]
check "the end comes last" [ "$(tail -n 1 "$dir/events")" = end ]
check "the end says ok" [ "$(tail -n 1 "$dir/out" | "$JSON_LINES" status)" = ok ]
check "the same seed gives the same adapter" cmp -s "$dir/a.gguf" "$dir/b.gguf"

mkdir "$dir/set"
head -n 30 "$valid_data" >"$dir/set/train.jsonl"
tail -n 9 "$valid_data" >"$dir/set/valid.jsonl"
capture "$LOAM" train "$model" --data "$dir/set" --max-seq-length 128 --rank 4 --iters 1 \
    --grad-accumulation-steps 1 -o "$dir/d.gguf"
check "a directory's train.jsonl is trained on" grep -q '^data .* 30 examples' "$dir/out"
check "a directory's valid.jsonl validates" grep -q '^validation .* 9 examples' "$dir/out"

train -o "$dir/q.gguf" --iters 1 --quiet
check "--quiet succeeds" [ "$rc" -eq 0 ]
check "--quiet prints nothing" [ ! -s "$dir/out" ]

train -o "$dir/many.gguf" --iters 120 --valid-share 0 --target-modules attn_q \
    --num-layers 1
check "a longer run succeeds" [ "$rc" -eq 0 ]
n_lines=$(grep -c '^step ' "$dir/out")
check "about 50 lines at most, not $n_lines" [ "$n_lines" -le 55 ]
check "and more than 20, not $n_lines" [ "$n_lines" -ge 20 ]
check "the last step has a line" grep -q '^step 120/120 ' "$dir/out"

train -o "$dir/debug.gguf" --iters 1 --sched-debug
check "--sched-debug tells the split" grep -q "^split 0: cpu" "$dir/out"

# Options that only one of the two spellings of a flag has must reach the run.
train -o "$dir/mask.gguf" --iters 1 --mask-prompt --json
with_mask=$(head -n 1 "$dir/out" | "$JSON_LINES" data)
train -o "$dir/mask.gguf" --iters 1 --train-on completion --json
check "--mask-prompt is --train-on completion" \
    [ "$with_mask" = "$(head -n 1 "$dir/out" | "$JSON_LINES" data)" ]
train -o "$dir/mask.gguf" --iters 1 --train-on all --json
check "--train-on all trains more" [ "$with_mask" != "$(head -n 1 "$dir/out" | "$JSON_LINES" data)" ]

# ---- interruption ---------------------------------------------------------------------------

# interrupt SIGNAL: starts a long run, sends the signal after the first step.
# shellcheck disable=SC2086 # $few is a list of words
interrupt() {
    rm -f "$dir/stopped"*.gguf
    "$LOAM" train "$model" $few -o "$dir/stopped.gguf" --iters 100000 --valid-share 0 \
        >"$dir/out" 2>"$dir/err" &
    pid=$!
    waited=0
    while [ $waited -lt 600 ] && ! grep -q '^step 1/' "$dir/out"; do
        sleep 0.2
        waited=$((waited + 1))
    done
    kill -"$1" $pid
    wait $pid
    rc=$?
}
interrupt INT
check "after Ctrl-C the status is 130" [ "$rc" -eq 130 ]
check "it says that it stops" grep -q "stopping after this step" "$dir/err"
check "the adapter is saved" [ -s "$dir/stopped.gguf" ]
capture "$LOAM" inspect "$dir/stopped.gguf" --keys general.type
check "and is whole" grep -q '"adapter"' "$dir/out"
interrupt TERM
check "after SIGTERM the status is 143" [ "$rc" -eq 143 ]
check "the adapter is saved then too" [ -s "$dir/stopped.gguf" ]
check "no temporary file is left" [ "$(find "$dir" -name '.*stopped*' | wc -l)" -eq 0 ]
check "it says how to go on" \
    grep -qF "to go on: loam train -c $dir/stopped.yaml --resume $dir/stopped.gguf" "$dir/err"

# ---- evaluation and generation --------------------------------------------------------------

capture "$LOAM" eval "$model" --data "$valid_data" --json
check "eval succeeds" [ "$rc" -eq 0 ]
base_loss=$("$JSON_LINES" loss <"$dir/out")
capture "$LOAM" eval "$model" --data "$valid_data" --lora "$dir/a.gguf" --json
tuned_loss=$("$JSON_LINES" loss <"$dir/out")
check "the adapter lowers the loss on its data ($base_loss, $tuned_loss)" \
    awk "BEGIN { exit !($tuned_loss < $base_loss) }"
capture "$LOAM" eval "$model" --data "$valid_data" --lora "$dir/a.gguf=0" --json
check "at scale 0 it changes nothing" [ "$("$JSON_LINES" loss <"$dir/out")" = "$base_loss" ]
capture "$LOAM" eval "$model" --data "$valid_data"
check "eval for people" grep -q '^loss [0-9.]*, perplexity [0-9.]*$' "$dir/out"

text="Loam trains adapters."
capture "$LOAM" eval "$model" --logprobs --text "$text" --json
check "logprobs succeed" [ "$rc" -eq 0 ]
"$JSON_LINES" tokens <"$dir/out" | tr ',' '\n' >"$dir/tokens"
"$JSON_LINES" logprobs <"$dir/out" | tr ',' '\n' >"$dir/logprobs"
check "one log-probability less than tokens" \
    [ "$(wc -l <"$dir/tokens")" -eq $(($(wc -l <"$dir/logprobs") + 1)) ]
cp "$dir/out" "$dir/by-text"
printf %s "$text" >"$dir/text.txt"
capture "$LOAM" eval "$model" --logprobs --text-file "$dir/text.txt" --json
check "--text-file gives the same" cmp -s "$dir/out" "$dir/by-text"
capture "$LOAM" eval "$model" --logprobs --text "$text"
check "the table ends with the mean" grep -q '^mean negative log-probability' "$dir/out"

capture "$LOAM" generate "$model" -p "What is Loam?" --temp 0 --max-tokens 8
check "generate succeeds" [ "$rc" -eq 0 ]
cp "$dir/out" "$dir/plain"
capture "$LOAM" generate "$model" -p "What is Loam?" --temp 0 --max-tokens 8 --json
check "generate --json is JSON" "$JSON_LINES" <"$dir/out"
check "and has the same text" [ "$("$JSON_LINES" text <"$dir/out")" = "$(cat "$dir/plain")" ]

# ---- inspection -----------------------------------------------------------------------------

capture "$LOAM" inspect "$model"
check "inspect shows keys" grep -q '^general.architecture .*"qwen3"' "$dir/out"
check "inspect shows tensors" grep -q '^blk.0.attn_q.weight .*q4_K .*512 x 512' "$dir/out"
capture "$LOAM" inspect "$model" --tensors 'blk.0.*' --json
check "inspect --json is JSON" "$JSON_LINES" <"$dir/out"
check "only the tensors that match" [ "$(grep -o '"name":"' "$dir/out" | wc -l)" -eq 11 ]
capture "$LOAM" inspect "$model" --keys tokenizer.ggml.tokens --full --json
check "--full has all of a long array" [ "$(wc -c <"$dir/out")" -gt 60000 ]
head -c 400000 "$model" >"$dir/header.gguf"
capture "$LOAM" inspect "$dir/header.gguf"
check "a header is enough to inspect" grep -q '^output_norm.weight' "$dir/out"

capture "$LOAM" parity --op SCALE --grad --json
check "parity succeeds" [ "$rc" -eq 0 ]
check "parity --json is JSON" "$JSON_LINES" <"$dir/out"
check "parity sums up" [ "$(tail -n 1 "$dir/out" | "$JSON_LINES" failed)" = 0 ]
capture "$LOAM" parity --op SCALE --markdown
check "parity --markdown has the op" grep -q '^| SCALE | f32' "$dir/out"

# ---- stdout that goes away ------------------------------------------------------------------

# closed ARGUMENTS...: the reader takes one line and leaves; the status of the program is in $rc.
closed() {
    { "$LOAM" "$@" 2>"$dir/err"; echo $? >"$dir/rc"; } | head -n 1 >"$dir/out"
    rc=$(cat "$dir/rc")
}
closed inspect "$model" --full
check "inspect | head ends well" [ "$rc" -eq 0 ]
check "and quietly" [ ! -s "$dir/err" ]
closed parity --op SCALE --perf
check "parity | head ends well" [ "$rc" -eq 0 ]
# shellcheck disable=SC2086 # $few is a list of words
closed train "$model" $few -o "$dir/piped.gguf" --iters 3
check "train | head trains on" [ "$rc" -eq 0 ]
check "its adapter is there" [ -s "$dir/piped.gguf" ]
check "it says so" grep -q "nobody reads" "$dir/err"
if [ -e /dev/full ]; then
    "$LOAM" inspect "$model" >/dev/full 2>"$dir/err"
    rc=$?
    check "a full disk is a failure" [ "$rc" -eq 1 ]
    check "and is named" grep -q "standard output" "$dir/err"
fi

# ---- speed ----------------------------------------------------------------------------------

capture "$LOAM" bench "$model" --seconds 0.05 --seq-length 64 --json
check "bench succeeds" [ "$rc" -eq 0 ]
check "bench measures both" grep -q '"train_tokens_per_s": *[1-9]' "$dir/out"
capture "$LOAM" bench "$model" --seq-length 999999
check "bench refuses more tokens than the model takes" grep -q 'takes 2 to 1024 tokens' "$dir/err"

finish
