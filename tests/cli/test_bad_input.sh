#!/bin/sh
# test_bad_input.sh: whatever is wrong with the input gives one clear line, the right exit status,
# and no file that was not there before.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

out=$dir/results
mkdir "$out"
good="--data $valid_data -o $out/adapter.gguf --iters 1"

# train ARGUMENTS...: the model first.
train() {
    capture "$LOAM" train "$@"
}

nothing_written() {
    check "$1: files were left behind: $(ls -A "$out")" [ -z "$(ls -A "$out")" ]
    rm -rf "$out"
    mkdir "$out"
}

# shellcheck disable=SC2086 # $good is a list of words
run_cases() {
    # Files that are not there, or are not what they should be.
    train "$dir/no-such-model.gguf" $good
    refused "missing model" 1 "no-such-model.gguf"
    train "$model" --data "$dir/no-such-data.jsonl" -o "$out/adapter.gguf"
    refused "missing data" 1 "no-such-data.jsonl"
    nothing_written "missing data"
    train "$model" $good --init-adapter "$dir/no-such-adapter.gguf"
    refused "missing adapter" 1 "no-such-adapter.gguf"
    train "$dir" $good
    refused "a folder as model" 1 "$dir"
    train "$train_data" $good
    refused "data as model" 1 "loam-train.jsonl"

    head -c 1000000 "$model" >"$dir/truncated.gguf"
    train "$dir/truncated.gguf" $good
    refused "truncated model" 1 "truncated.gguf"
    head -c 10 "$model" >"$dir/ten-bytes.gguf"
    train "$dir/ten-bytes.gguf" $good
    refused "ten bytes of a model" 1 "ten-bytes.gguf"
    : >"$dir/empty.gguf"
    train "$dir/empty.gguf" $good
    refused "empty model" 1 "empty.gguf"
    LC_ALL=C sed 's/qwen3/qwenX/g' "$model" >"$dir/unknown.gguf"
    train "$dir/unknown.gguf" $good
    refused "unknown architecture" 1 "qwenX"
    nothing_written "bad models"

    # Data.
    { head -n 3 "$valid_data"; echo '{"messages": [{"role": "user"'; tail -n 3 "$valid_data"; } \
        >"$dir/broken.jsonl"
    train "$model" --data "$dir/broken.jsonl" -o "$out/adapter.gguf" --iters 1
    refused "broken line" 1 "broken.jsonl:4"
    : >"$dir/empty.jsonl"
    train "$model" --data "$dir/empty.jsonl" -o "$out/adapter.gguf" --iters 1
    refused "empty data" 1 "empty.jsonl"
    echo '{"unknown": 1}' >"$dir/keys.jsonl"
    train "$model" --data "$dir/keys.jsonl" -o "$out/adapter.gguf" --iters 1
    refused "unknown keys" 1 "keys.jsonl"
    train "$model" $good --format sonnet
    refused "unknown format" 2 "sonnet"
    nothing_written "bad data"

    # Output.
    train "$model" --data "$valid_data" -o "$dir/no-such-folder/adapter.gguf" --iters 1
    refused "output in a missing folder" 1 "no-such-folder"
    train "$model" --data "$valid_data" -o "$out" --iters 1
    refused "a folder as output" 1 "$out"
    train "$model" --data "$valid_data" -o /proc/adapter.gguf --iters 1
    refused "unwritable output" 1 "/proc/adapter.gguf"
    nothing_written "bad output"

    # Values.
    train "$model" $good --rank 0
    refused "rank 0" 2 "--rank 0"
    train "$model" $good --rank 60000
    refused "a rank above the matrices" 2 "rank"
    train "$model" $good --rank eight
    refused "a rank in words" 2 "--rank eight"
    train "$model" $good --rank 8x
    refused "a rank with a tail" 2 "--rank 8x"
    train "$model" $good --rank 99999999999999999999
    refused "a rank beyond integers" 2 "--rank 99999999999999999999"
    train "$model" $good --learning-rate nan
    refused "a rate that is no number" 2 "--learning-rate nan"
    train "$model" $good --learning-rate=
    refused "an empty number" 2 "--learning-rate"
    train "$model" $good --seed -1
    refused "a negative seed" 2 "--seed -1"
    train "$model" $good --overlong maybe
    refused "an unknown choice" 2 "drop|truncate|split|error"
    train "$model" $good --target-modules attn_z
    refused "a target that does not exist" 2 "attn_z"
    train "$model" $good --device abacus
    refused "a device that does not exist" 2 "abacus"
    nothing_written "bad values"
    capture "$LOAM" generate "$model" -p x --temp -1
    refused "a temperature below 0" 2 "--temp -1"
    capture "$LOAM" eval "$model" --data "$valid_data" --lora "$model"
    refused "a model as adapter" 1 "loam-29m-Q4_K_M.gguf"

    # Flags.
    train "$model" $good --learning-rat 1
    refused "unknown flag" 2 "did you mean '--learning-rate'?"
    train "$model" $good --lr 1
    refused "a flag by its first letters" 2 "did you mean '--learning-rate'?"
    train "$model" $good --flux 1
    refused "a flag like no other" 2 "unknown flag '--flux'"
    train "$model" $good -z
    refused "unknown letter" 2 "unknown flag '-z'"
    train "$model" $good --rank
    refused "missing value at the end" 2 "--rank needs a value"
    train "$model" --data --rank 8
    refused "missing value before a flag" 2 "--data needs a value"
    train "$model" $good --rslora=yes
    refused "a value for a flag without one" 2 "--rslora takes no value"
    train "$model" $good --rank 8 --rank 16
    refused "a flag twice" 2 "--rank is given twice"
    train "$model" $good --adapter-path "$out/other.gguf"
    refused "two names of one flag" 2 "--output and --adapter-path"
    train "$model" --data "$valid_data"
    refused "no output" 2 "-o FILE is missing"
    train "$model" -o "$out/adapter.gguf"
    refused "no data" 2 "--data FILE is missing"
    train $good
    refused "no model" 2 "MODEL.gguf is missing"
    train "$model" "$model" $good
    refused "two models" 2 "one argument too many"
    train -- --rank
    refused "a dash after --" 2 "--data FILE is missing"
    capture "$LOAM" trian
    refused "unknown command" 2 "did you mean 'loam train'?"
    capture "$LOAM" --versoin
    refused "unknown flag without a command" 2 "--versoin"
    capture "$LOAM" eval "$model"
    refused "eval without data" 2 "--data FILE is missing"
    capture "$LOAM" generate "$model"
    refused "generate without a prompt" 2 "-p TEXT is missing"
    capture "$LOAM" generate "$model" -p "$(printf '\377 hello')"
    refused "a prompt that is not UTF-8" 1 "not valid UTF-8"
    capture "$LOAM" generate "$model" -p hello --ctx 99999
    refused "a context beyond the model's" 2 "at most 1024 tokens"
    capture "$LOAM" inspect "$dir/ten-bytes.gguf"
    refused "inspect ten bytes" 1 "ten-bytes.gguf"
    capture "$LOAM" parity --op SOFTMAX
    refused "unknown op" 2 "SOFTMAX"
    nothing_written "bad flags"

    # What is in an argument must not break the line: escapes and newlines are shown as '?'.
    train "$(printf '%s/a\nb\033[31m.gguf' "$dir")" $good
    refused "a name with a newline" 1 "a?b?[31m.gguf"
}

run_cases

# Nothing that a run reads is written over, however it is called.
cp "$model" "$dir/base.gguf"
cp "$valid_data" "$dir/set.jsonl"
ln -s base.gguf "$dir/link.gguf"
cp "$model" "$dir/named-state.gguf"
few="--data $dir/set.jsonl --max-seq-length 128"
# shellcheck disable=SC2086 # $few is a list of words
protected() {
    capture "$LOAM" train "$dir/$1" $few --iters 1 -o "$dir/$2" --metrics "$dir/$3"
    refused "$4" 2 "would be written over"
}
protected base.gguf base.gguf m.jsonl "the model as output"
protected base.gguf link.gguf m.jsonl "a link to the model as output"
protected named-state.gguf named.gguf m.jsonl "the model where the state goes"
protected base.gguf set.jsonl m.jsonl "the data as output"
protected base.gguf o.gguf base.gguf "the model as metrics"
protected base.gguf o.gguf set.jsonl "the data as metrics"
check "the model is whole" cmp -s "$model" "$dir/base.gguf"
check "the data is whole" cmp -s "$valid_data" "$dir/set.jsonl"

# One run at a time writes an adapter.
# shellcheck disable=SC2086
"$LOAM" train "$model" $few --iters 400 -o "$dir/one.gguf" >"$dir/one.out" 2>&1 &
first=$!
while ! grep -q '^step 1/' "$dir/one.out"; do sleep 0.1; done
# shellcheck disable=SC2086
capture "$LOAM" train "$model" $few --iters 1 -o "$dir/one.gguf"
refused "a second run into the same adapter" 2 "another run is writing"
kill -INT "$first"
wait "$first"
check "the lock is gone with its run" [ ! -e "$dir/one-state-lock.gguf" ]

# A file that stood at the output's place stays as it was when the run fails.
echo before >"$out/adapter.gguf"
train "$model" --data "$dir/broken.jsonl" -o "$out/adapter.gguf" --iters 1
check "the old file is untouched" [ "$(cat "$out/adapter.gguf")" = before ]

finish
