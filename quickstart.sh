#!/bin/sh
# sh quickstart.sh: from a bare checkout to a trained adapter, in under five minutes on two cores.
#
# Installs what the build needs (Debian and Ubuntu by apt-get, macOS by Homebrew; macOS has not
# been tried), builds Loam, measures the bundled test model on questions it has not seen, trains an
# adapter on examples/loam-train.jsonl, measures again and asks one question without and with the
# adapter. Everything it makes lies in build/; THREADS=N sets the CPU threads (default: all cores).
set -eu
cd "$(dirname "$0")"

debian="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libyaml-dev
    libxxhash-dev libdnnl-dev"
homebrew="cmake ninja pkgconf jansson libyaml xxhash"

model=models/loam-29m-Q4_K_M.gguf
adapter=build/quickstart/adapter.gguf
question="What programming language is Loam written in?"
threads=${THREADS:-$(getconf _NPROCESSORS_ONLN)}

say() {
    printf '\n== %s\n' "$*"
}

# Shows a command as a user would type it, then runs it.
run() {
    printf '$'
    for word in "$@"; do
        case $word in
        *' '*) printf ' "%s"' "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

install_debian() {
    missing=
    for package in $debian; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    say "Installing:$missing"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        echo "neither root nor sudo: have these installed first: apt-get install$missing"
        exit 1
    fi
    $as_root apt-get update -q
    # shellcheck disable=SC2086 # a list of names
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q --no-install-recommends $missing
}

begin=$(date +%s)
if command -v apt-get >/dev/null 2>&1; then
    install_debian
elif command -v brew >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # a list of names
    brew install $homebrew
else
    echo "neither apt-get nor brew is here; the build needs a C11 compiler, CMake, Ninja, pkg-config,"
    echo "jansson, libyaml, xxHash, and oneDNN or OpenBLAS"
fi

say "Building build/release/loam"
cmake --preset release -DLOAM_BUILD_TESTS=OFF >/dev/null
cmake --build build/release -j "$threads" --target loam -- --quiet
mkdir -p build/quickstart
loam=build/release/loam

say "The test model, on questions it was not trained on"
run $loam eval $model --data examples/loam-valid.jsonl --threads "$threads"

say "Training an adapter on the quantized model"
run $loam train $model --data examples/loam-train.jsonl --valid-data examples/loam-valid.jsonl \
    -o $adapter --iters 100 --batch-size 2 --grad-accumulation-steps 1 --learning-rate 4e-3 \
    --max-seq-length 256 --steps-per-eval 25 --seed 1 --threads "$threads"

say "The same questions, with the adapter"
run $loam eval $model --lora $adapter --data examples/loam-valid.jsonl --threads "$threads"

say "One question, without the adapter and with it"
run $loam generate $model -p "$question" --temp 0 --max-tokens 40 --threads "$threads"
run $loam generate $model --lora $adapter -p "$question" --temp 0 --max-tokens 40 \
    --threads "$threads"

say "Done in $(($(date +%s) - begin)) s. The adapter is $adapter."
