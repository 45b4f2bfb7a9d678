#!/bin/sh
# test_terminal.sh: the live line of a training run on a terminal, which script(1) provides.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

if ! script -qec true /dev/null >/dev/null 2>&1; then
    echo "[  SKIPPED ] 1 test(s): script(1) of util-linux is not here"
    exit 0
fi

escape=$(printf '\033')

# on_terminal COLUMNS: a short run on a terminal of that width; what it printed is in $dir/screen.
on_terminal() {
    TERM=xterm script -qec "stty cols $1 && exec '$LOAM' train '$model' --data '$valid_data' \
        --max-seq-length 128 --rank 2 --grad-accumulation-steps 1 --iters 8 -o '$dir/t.gguf'" \
        "$dir/typescript" >"$dir/screen" </dev/null
    rc=$?
}

on_terminal 60
check "train on a terminal succeeds" [ "$rc" -eq 0 ]
check "the live line is redrawn" [ "$(tr '\r' '\n' <"$dir/screen" | grep -c "^step [1-8]/8 ")" -ge 8 ]
check "it is cleared before other lines" grep -q "$escape\[K" "$dir/screen"
check "it keeps to the width" [ "$(tr '\r' '\n' <"$dir/screen" | grep "^step [1-8]/8 " |
    sed "s/$escape\[[0-9;]*[mK]//g" | awk 'length > 59' | wc -l)" -eq 0 ]
check "colours are shown" grep -q "$escape\[1m" "$dir/screen"
on_terminal 24
check "a narrow terminal gets the first parts" [ "$(tr '\r' '\n' <"$dir/screen" |
    grep "^step [1-8]/8 " | sed "s/$escape\[[0-9;]*[mK]//g" | awk 'length > 23' | wc -l)" -eq 0 ]
check "which are the step and the loss" grep -q "step 8/8  loss" "$dir/screen"
NO_COLOR=1
export NO_COLOR
on_terminal 60
check "NO_COLOR is honoured" [ "$(grep -c "$escape\[[0-9]*m" "$dir/screen")" -eq 0 ]

finish
