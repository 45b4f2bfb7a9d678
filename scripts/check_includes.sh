#!/bin/sh
# check_includes.sh [ROOT]: who may include whom.
# check_includes.sh --self-test: seeds one violation of each rule and expects it to be found.
#
# A file of src/X may include
#   - "X/..."   any header of its own folder, written from src/;
#   - "Y/Y.h"   the one header of a folder Y that stands before X in `order`;
#   - "loam.h"  the public API, and system or library headers.
# Within src/device, cpu, cuda and metal never include each other. A file of cli/ includes "loam.h"
# and headers that lie in cli/. include/loam.h includes system headers only.
# Prints file:line and the rule that is broken; exits 1 on any finding.
set -eu

order="core tensor gguf text op kernels device graph model train api"

check() {
    root=$1
    find "$root/src" "$root/cli" "$root/include" -type f \( -name '*.c' -o -name '*.h' \
        -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.m' -o -name '*.metal' \
        -o -name '*.cpp' \) 2>/dev/null | sort | xargs awk -v root="$root/" -v order="$order" '
    BEGIN {
        n = split(order, folders, " ")
        for (i = 1; i <= n; i++)
            rank[folders[i]] = i
    }
    function bad(rule) {
        printf "%s:%d: includes \"%s\": %s\n", where, FNR, path, rule
        failed = 1
    }
    function exists(file, line) {
        if ((getline line < file) < 0)
            return 0
        close(file)
        return 1
    }
    FNR == 1 {
        where = substr(FILENAME, length(root) + 1)
        split(where, part, "/")
    }
    /^[ \t]*#[ \t]*(include|import)[ \t]*["<]/ {
        quoted = match($0, /"[^"]+"/)
        if (!quoted && !match($0, /<[^>]+>/))
            next
        path = substr($0, RSTART + 1, RLENGTH - 2)
        if (!quoted) {
            # A header of ours in angle brackets would hide from the rule.
            split(path, target, "/")
            if (path ~ /\// && target[1] in rank)
                bad("Loam headers are included with quotes")
            next
        }
        if (part[1] == "include") {
            bad("loam.h includes system headers only")
        } else if (part[1] == "cli") {
            if (path != "loam.h" && (path ~ /\// || !exists(root "cli/" path)))
                bad("cli includes loam.h and headers of cli only")
        } else if (path != "loam.h") {
            check_src()
        }
    }
    function check_src(own, count) {
        own = part[2]
        if (!(own in rank)) {
            bad("src/" own " is not in the order of folders")
            return
        }
        count = split(path, target, "/")
        if (count < 2 || !(target[1] in rank)) {
            bad("headers are written from src/, as \"" own "/name.h\"")
        } else if (target[1] == own) {
            if (own == "device" && part[3] ~ /^(cpu|cuda|metal)$/ &&
                target[2] ~ /^(cpu|cuda|metal)$/ && part[3] != target[2])
                bad("device/" part[3] " and device/" target[2] " never include each other")
        } else if (rank[target[1]] > rank[own]) {
            bad(target[1] " stands below " own)
        } else if (path != target[1] "/" target[1] ".h") {
            bad("of another folder only its header " target[1] "/" target[1] ".h")
        }
    }
    END { exit failed }'
}

# Writes one file of a seeded tree: put PATH INCLUDE...
put() {
    file=$tree/$1
    shift
    mkdir -p "$(dirname "$file")"
    for header in "$@"; do
        printf '#include %s\n' "$header"
    done >>"$file"
}

expect() {
    if ! grep -qF "$1" "$tree/found"; then
        echo "self-test: nothing found at $1"
        failures=$((failures + 1))
    fi
}

self_test() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    failures=0

    put include/loam.h '<stddef.h>'
    put src/core/core.h '"loam.h"' '<stdint.h>'
    put src/op/add.c '"op/op.h"' '"op/op_def.h"' '"core/core.h"' '"tensor/tensor.h"'
    put src/device/cpu/cpu.c '"device/device.h"' '"device/cpu/cpu.h"' '"op/op.h"' '<cblas.h>'
    put src/device/open.c '"device/cuda/cuda.h"'
    put cli/cli.h '"loam.h"'
    put cli/main.c '"loam.h"' '"cli.h"' '<stdio.h>'
    if ! check "$tree"; then
        echo "self-test: a tree that keeps the rule is refused"
        failures=$((failures + 1))
    fi

    put src/core/up.c '"core/core.h"' '"tensor/tensor.h"'
    put src/graph/inner.c '"op/op_def.h"'
    put src/op/bare.c '"op_def.h"'
    put src/device/cpu/cross.c '"device/metal/mtl.h"'
    put src/device/cuda/cross.cu '"device/cpu/cpu.h"'
    put src/train/angle.c '<core/core.h>'
    put src/odd/odd.c '"core/core.h"'
    put cli/deep.c '"core/core.h"'
    put cli/missing.c '"op.h"'
    put include/more.h '"core/core.h"'
    if check "$tree" >"$tree/found"; then
        echo "self-test: a tree with violations passes"
        failures=$((failures + 1))
    fi
    expect 'src/core/up.c:2: includes "tensor/tensor.h": tensor stands below core'
    expect 'src/graph/inner.c:1: includes "op/op_def.h": of another folder only'
    expect 'src/op/bare.c:1: includes "op_def.h": headers are written from src/'
    expect 'src/device/cpu/cross.c:1: includes "device/metal/mtl.h": device/cpu and device/metal'
    expect 'src/device/cuda/cross.cu:1: includes "device/cpu/cpu.h": device/cuda and device/cpu'
    expect 'src/train/angle.c:1: includes "core/core.h": Loam headers are included with quotes'
    expect 'src/odd/odd.c:1: includes "core/core.h": src/odd is not in the order'
    expect 'cli/deep.c:1: includes "core/core.h": cli includes loam.h'
    expect 'cli/missing.c:1: includes "op.h": cli includes loam.h'
    expect 'include/more.h:1: includes "core/core.h": loam.h includes system headers only'
    found=$(wc -l <"$tree/found")
    if [ "$found" -ne 10 ]; then
        echo "self-test: 10 violations seeded, $found found"
        cat "$tree/found"
        failures=$((failures + 1))
    fi
    [ "$failures" -eq 0 ]
}

case ${1:-} in
--self-test) self_test ;;
*) check "${1:-$(dirname "$0")/..}" ;;
esac
