# What the scripts share.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
library=${FAIRLOCK_LIBRARY:-$here/../../target/release/libfairlock_preload.so}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

[ -f "$library" ] || fail "no $library: cargo build --release -p fairlock-preload"

# needs PROGRAM...: they are installed.
needs() {
    for program; do
        command -v "$program" >/dev/null || fail "no $program: install its package"
    done
}

# with_ours COMMAND...: runs it with our locks; their report is in $work/report.
with_ours() {
    LD_PRELOAD=$library FAIRLOCK_STATS=$work/report "$@"
}

# acquisitions KIND: of all locks of that kind in the reports of the program and its children.
acquisitions() {
    [ -f "$work/report" ] || fail "no report"
    cat "$work"/report* | sed -n 's/.*"kind":"'"$1"'".*"reads":\([0-9]*\),"writes":\([0-9]*\).*/\1 \2/p' |
        awk '{ sum += $1 + $2 } END { print sum + 0 }'
}
