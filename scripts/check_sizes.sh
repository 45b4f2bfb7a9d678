#!/bin/sh
# check_sizes.sh [ROOT]: source files hold at most 1500 lines, functions at most 100.
# check_sizes.sh --self-test: seeds a file and a function that are too long and expects both.
#
# A function is counted from its "{" alone in column 0 to the "}" that begins a line, both
# included: that is how clang-format lays functions out here.
# Prints file:line and the length; exits 1 on any finding.
set -eu

max_file_lines=1500
max_function_lines=100

check() {
    cd "$1"
    find src cli include tests bench -type d -name node_modules -prune -o -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \
        -o -name '*.m' -o -name '*.metal' -o -name '*.cpp' -o -name '*.mjs' -o -name '*.sh' \) \
        -print 2>/dev/null | sort | xargs awk -v max_file="$max_file_lines" \
        -v max_function="$max_function_lines" '
    function end_file() {
        if (lines > max_file) {
            printf "%s:%d: file of %d lines, at most %d\n", name, lines, lines, max_file
            failed = 1
        }
    }
    FNR == 1 {
        end_file()
        name = FILENAME
        begin = 0
    }
    { lines = FNR }
    $0 == "{" && !begin { begin = FNR }
    /^}/ && begin {
        if (FNR - begin + 1 > max_function) {
            printf "%s:%d: function of %d lines, at most %d\n", name, begin, FNR - begin + 1,
                max_function
            failed = 1
        }
        begin = 0
    }
    END {
        end_file()
        exit failed
    }'
}

self_test() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir -p "$tree/src/core" "$tree/tests"
    awk 'BEGIN { print "int fine(void)\n{"; for (i = 0; i < 98; i++) print "    ;"; print "}" }' \
        >"$tree/src/core/fine.c"
    if ! (check "$tree"); then
        echo "self-test: a function of 100 lines is refused"
        return 1
    fi
    awk 'BEGIN { print "int long(void)\n{"; for (i = 0; i < 99; i++) print "    ;"; print "}" }' \
        >"$tree/src/core/long.c"
    awk 'BEGIN { for (i = 0; i < 1501; i++) print "" }' >"$tree/tests/long.c"
    found=$( (check "$tree") || true)
    expected='src/core/long.c:2: function of 101 lines, at most 100
tests/long.c:1501: file of 1501 lines, at most 1500'
    if [ "$found" != "$expected" ]; then
        printf 'self-test: expected\n%s\nfound\n%s\n' "$expected" "$found"
        return 1
    fi
}

case ${1:-} in
--self-test) self_test ;;
*) check "${1:-$(dirname "$0")/..}" ;;
esac
