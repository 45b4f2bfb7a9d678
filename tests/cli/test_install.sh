#!/bin/sh
# test_install.sh: what is installed is complete: a program builds against it, statically and with
# the shared library.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

prefix=$dir/prefix
capture cmake --install "$LOAM_BUILD_DIR" --prefix "$prefix"
check "cmake --install succeeds" [ "$rc" -eq 0 ]
[ "$rc" -eq 0 ] || finish
libdir=$(dirname "$(find "$prefix" -name libloam.a)")
for file in bin/loam include/loam.h share/man/man1/loam.1; do
    check "$file is installed" [ -s "$prefix/$file" ]
done
check "the pkg-config file is installed" [ -s "$libdir/pkgconfig/loam.pc" ]
capture "$prefix/bin/loam" --version
check "the installed program runs" [ "$rc" -eq 0 ]

flags=
[ "$LOAM_SANITIZE" != ON ] || flags=-fsanitize=address,undefined
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# The file holds the prefix of the configuration; the test installs somewhere else.
configured=$(pkg-config --variable=prefix loam)
from="s|$configured/|$prefix/|g"

for kind in static shared; do
    extra=
    [ $kind = shared ] || extra=--static
    # shellcheck disable=SC2086 # lists of words
    words=$(pkg-config $extra --cflags --libs loam | sed "$from")
    if [ $kind = static ]; then
        mkdir "$dir/static"
        cp "$libdir/libloam.a" "$dir/static/" # a folder without the shared one
        words="-L$dir/static $words"
    fi
    # shellcheck disable=SC2086 # lists of words
    capture "$CC" -std=c11 $flags "$root/examples/embed.c" $words -o "$dir/embed-$kind"
    check "an example builds with the $kind library" [ "$rc" -eq 0 ]
    capture env LD_LIBRARY_PATH="$libdir" "$dir/embed-$kind"
    check "and runs" [ "$rc" -eq 2 ] # its usage
done

finish
