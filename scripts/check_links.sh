#!/bin/sh
# check_links.sh: what the Markdown pages point at is there.
#
# In README.md, CONTRIBUTING.md and docs/*.md: every relative link target and every path in
# backticks that begins with a folder of this repository exists, and every "#heading" of a page
# itself is a heading of it. Paths under build/ are made by the build and are not looked for; a
# name with < > or * stands for many files. Web addresses are not fetched.
# Prints file:line and what is missing; exits 1 on any finding.
set -eu
cd "$(dirname "$0")/.."

findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

for page in README.md CONTRIBUTING.md docs/*.md; do
    [ -f "$page" ] || continue
    awk -v page="$page" '
    /^```/ { fenced = !fenced; next }
    fenced { next }
    /^#+ / {
        slug = tolower($0)
        sub(/^#+ +/, "", slug)
        gsub(/[^a-z0-9 _-]/, "", slug)
        gsub(/ /, "-", slug)
        print page, NR, "heading", slug
    }
    {
        rest = $0
        while (match(rest, /\]\([^) ]+\)/)) {
            print page, NR, "link", substr(rest, RSTART + 2, RLENGTH - 3)
            rest = substr(rest, RSTART + RLENGTH)
        }
        rest = $0
        while (match(rest, /`[^` ]+`/)) {
            print page, NR, "mention", substr(rest, RSTART + 1, RLENGTH - 2)
            rest = substr(rest, RSTART + RLENGTH)
        }
    }' "$page"
done >"$findings"

failed=0
report() {
    echo "$1:$2: $3"
    failed=1
}

while read -r page line kind target; do
    case $kind in
    link)
        case $target in
        *://* | mailto:*) ;;
        '#'*)
            grep -qx "$page [0-9]* heading ${target#\#}" "$findings" ||
                report "$page" "$line" "no heading for the link $target"
            ;;
        *)
            [ -e "$(dirname "$page")/${target%%#*}" ] ||
                report "$page" "$line" "the link $target leads nowhere"
            ;;
        esac
        ;;
    mention)
        case $target in
        build/* | *'<'* | *'*'* | *'{'*) ;;
        */*)
            if [ -d "${target%%/*}" ] && [ ! -e "$target" ]; then
                report "$page" "$line" "the path $target does not exist"
            fi
            ;;
        esac
        ;;
    esac
done <"$findings"
exit $failed
