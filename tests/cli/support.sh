# support.sh: what the tests of the program share; sourced by test_*.sh, which ctest runs.
#
# Set by ctest: LOAM (the program), LOAM_SOURCE_DIR, LOAM_BUILD_DIR, JSON_LINES, CC, LOAM_SANITIZE.
# shellcheck shell=sh
# shellcheck disable=SC2034 # used by the tests
set -u

root=$LOAM_SOURCE_DIR
model=$root/models/loam-29m-Q4_K_M.gguf
train_data=$root/examples/loam-train.jsonl
valid_data=$root/examples/loam-valid.jsonl
n_passed=0
n_failed=0
unset NO_COLOR COLUMNS

dir=$(mktemp -d "${TMPDIR:-/tmp}/loam-cli-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

# Runs a command; its status, stdout and stderr are in $rc, $dir/out and $dir/err.
capture() {
    "$@" >"$dir/out" 2>"$dir/err"
    rc=$?
}

pass() {
    n_passed=$((n_passed + 1))
}

# fail WHAT: prints it, and what the last capture gave.
fail() {
    n_failed=$((n_failed + 1))
    echo "FAILED: $1"
    echo "  status ${rc-}; stdout and stderr:"
    head -n 20 "$dir/out" "$dir/err" 2>/dev/null | sed 's/^/    /'
}

# check WHAT COMMAND...: passes where the command succeeds.
check() {
    what=$1
    shift
    if "$@"; then pass; else fail "$what"; fi
}

# The last capture ended with status $2, nothing on stdout, and one line on stderr, which begins
# with "loam" and has $3 in it.
refused() {
    if [ "$rc" -ne "$2" ]; then
        fail "$1: the status is not $2"
    elif [ -s "$dir/out" ]; then
        fail "$1: something is on stdout"
    elif [ "$(wc -l <"$dir/err")" -ne 1 ]; then
        fail "$1: not one line on stderr"
    elif ! grep -q "^loam.*: " "$dir/err"; then
        fail "$1: the line does not begin with the program's name"
    elif ! grep -qF -- "$3" "$dir/err"; then
        fail "$1: '$3' is not in the line"
    else
        pass
    fi
}

# The last lines, as the counts of a test program.
finish() {
    echo "[  PASSED  ] $n_passed test(s)."
    [ "$n_failed" -eq 0 ] || echo "[  FAILED  ] $n_failed test(s)."
    exit $((n_failed > 0))
}
