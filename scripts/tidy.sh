#!/bin/sh
# tidy.sh BUILD: clang-tidy with .clang-tidy on every src and cli file of BUILD's compile database.
#
# One file per process, JOBS (default: all cores) at a time. A file that was clean is not read
# again until it, a header or .clang-tidy changes: its stamp lies in BUILD/tidy.
# Prints the findings; exits 1 where there are any.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
mkdir -p "$build/tidy"

headers=$({
    cat .clang-tidy scripts/analyzer.h scripts/tidy.sh
    clang-tidy --version
    find src cli include -name '*.[hi]*' -type f | sort | xargs cat
} | cksum | cut -d" " -f1)

# Prints the sources that the build compiles: "file": "/root/src/core/status.c",
sources=$(awk -F'"' -v root="$PWD/" '
    $2 == "file" && index($4, root) == 1 {
        name = substr($4, length(root) + 1)
        if (name ~ /^(src|cli)\//) print name
    }' "$build/compile_commands.json" | sort -u)

to_do=
for source in $sources; do
    stamp=$build/tidy/$(echo "$source" | tr '/' '_').$headers.$(cksum <"$source" | cut -d" " -f1)
    [ -e "$stamp" ] || to_do="$to_do $source:$stamp"
done
[ -n "$to_do" ] || exit 0

# shellcheck disable=SC2016 # expanded by the inner shell
echo "$to_do" | tr ' ' '\n' | sed '/^$/d' | xargs -n 1 -P "$jobs" sh -c '
    source=${1%%:*}
    stamp=${1#*:}
    set -- --extra-arg=-include "--extra-arg=$PWD/scripts/analyzer.h"
    # Not where these are defined, nor in cli, which does not see them.
    case $source in
    cli/*) set -- ;;
    src/op/*) set -- --extra-arg=-DLOAM_ANALYZE_OP "$@" ;;
    esac
    ! grep -Eq "^loam_status loam_(fail|reference_memory)\(" "$source" || set --
    if found=$(clang-tidy --quiet -p "$0" "$@" "$source" 2>/dev/null) && [ -z "$found" ]; then
        rm -f "${stamp%.*.*}".*
        : >"$stamp"
    else
        echo "$source"
        echo "$found"
        exit 1
    fi' "$build"
