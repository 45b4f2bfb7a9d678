#!/bin/sh
# test_help.sh: --help, --version, and the manual page that says the same.
. "${LOAM_SOURCE_DIR:?}/tests/cli/support.sh"

page=$root/docs/loam.1

capture "$LOAM" --version
check "--version succeeds" [ "$rc" -eq 0 ]
for word in "loam 0" "compiler:" "matrix products:" "devices: cpu" "architectures:.* llama"; do
    check "--version says '$word'" grep -q "^$word" "$dir/out"
done

capture "$LOAM"
check "no command is wrong usage" [ "$rc" -eq 2 ]
check "no command prints the overview on stderr" grep -q "^Usage: loam" "$dir/err"

capture "$LOAM" --help
check "--help succeeds" [ "$rc" -eq 0 ]
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$dir/out")
check "--help lists commands" [ "$(echo "$commands" | wc -l)" -ge 5 ]

# The page with its roff escapes undone.
sed -e 's/\\-/-/g' -e 's/\\f.//g' -e 's/\\(aq/'"'"'/g' -e 's/\\e/\\/g' "$page" >"$dir/page"

for command in $commands; do
    capture "$LOAM" "$command" --help
    check "$command --help succeeds" [ "$rc" -eq 0 ]
    check "$command --help keeps to 80 columns" [ "$(awk 'length > 80' "$dir/out" | wc -l)" -eq 0 ]
    cp "$dir/out" "$dir/help"
    capture "$LOAM" help "$command"
    check "help $command is the same" cmp -s "$dir/help" "$dir/out"
    heading="LOAM $(echo "$command" | tr '[:lower:]' '[:upper:]')"
    check "the page has $heading" grep -q "^.SH $heading\$" "$dir/page"
    sed -n "/^.SH $heading\$/,/^.SH [^L]/p" "$dir/page" >"$dir/section"
    flags=$(grep -o '^ \{2,6\}\(-., \)\{0,1\}--[a-z-]*' "$dir/help" | grep -o -e '--[a-z-]*')
    check "$command has flags" [ -n "$flags" ]
    for flag in $flags; do
        [ "$flag" != --help ] || continue
        check "the page has $flag of $command" grep -q -- "^.B .*$flag\( \|\$\)" "$dir/section"
    done
done

capture "$LOAM" help --man
if cmp -s "$dir/out" "$page"; then
    pass
else
    fail "docs/loam.1 is not what the program says: loam help --man > docs/loam.1"
fi
if command -v groff >/dev/null 2>&1; then
    capture groff -man -Tutf8 -ww "$page"
    check "groff has no complaint" [ ! -s "$dir/err" ]
fi

finish
