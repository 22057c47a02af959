# fairlock.3 of include/fairlock.h: awk -v version=V -f man.awk fairlock.h
# The comment at the header's beginning, then each function with its comment, then types and constants.

function text(line) {
    gsub(/\\/, "\\e", line)
    while (match(line, /`[^`]*`/))
        line = substr(line, 1, RSTART - 1) "\\fI" substr(line, RSTART + 1, RLENGTH - 2) "\\fP" \
            substr(line, RSTART + RLENGTH)
    return line ~ /^[.']/ ? "\\&" line : line
}

# What a comment says: `* 0: …` begins an item.
function comment(lines, line, i, count, parts, result) {
    count = split(lines, parts, "\n")
    for (i = 1; i < count; i++) {
        line = parts[i]
        if (line == "") result = result (parts[i + 1] ~ /^\*/ ? "" : ".PP\n")
        else if (sub(/^\* /, "", line)) result = result ".IP \\(bu 2\n" text(line) "\n"
        else { sub(/^ +/, "", line); result = result text(line) "\n" }
    }
    return result
}

function entry(declaration, lines) {
    gsub(/\\/, "\\e", declaration)
    gsub(/-/, "\\-", declaration)
    return ".PP\n.nf\n\\fB" declaration "\\fP\n.fi\n.RS 4\n" comment(lines) ".RE\n"
}

BEGIN {
    print ".TH FAIRLOCK 3 \"\" \"fairlock " version "\" \"Library Functions Manual\""
    print ".SH NAME\nfairlock \\- locks with a bound on every wait"
    print ".SH SYNOPSIS\n.nf\n\\fB#include <fairlock.h>\\fP\n"
    print "\\fBcc\\fP \\fIprogram.c\\fP \\fB\\-lfairlock\\fP\n.fi\n.SH DESCRIPTION"
}

# The comment at the beginning.
NR == 1, /^ \*\/$/ {
    if (!/^ \*( |$)/ || /Generated from/) next
    sub(/^ \* ?/, "")
    if (sub(/^fairlock\.h: /, "")) $0 = toupper(substr($0, 1, 1)) substr($0, 2)
    if ($0 == "") { begins = 1; next }
    if (begins && match($0, /^[A-Z][A-Z, ]+[A-Z]\.? /)) {
        title = substr($0, 1, 1) tolower(substr($0, 2, RLENGTH - 2))
        # A title, or a sentence's first word.
        $0 = sub(/\.$/, "", title) ? substr($0, RLENGTH + 1) : title substr($0, RLENGTH)
        print ".SS " title
    }
    begins = 0
    print text($0)
    next
}

/^\/\*\*$/ { said = ""; inside = 1; next }
inside && /^ \*\/$/ { inside = 0; next }
inside { sub(/^ \* ?/, ""); said = said $0 "\n"; next }
said == "" { next }
/^#define / { sub(/^#define /, ""); constants = constants entry($0, said); said = ""; next }
{ declaration = declaration (declaration == "" ? "" : "\n") $0 }
# A function's end, or a type's.
/;$/ && (declaration !~ /^typedef/ || /^}/) {
    if (declaration ~ /^typedef/) types = types entry(declaration, said)
    else {
        gsub(/FAIRLOCK_(API|MUST_USE)[ \n]|[ \n]FAIRLOCK_NOTHROW/, "", declaration)
        functions = functions entry(declaration, said)
    }
    declaration = said = ""
}

END {
    printf ".SH FUNCTIONS\n%s.SH TYPES\n%s.SH CONSTANTS\n%s", functions, types, constants
    print ".SH SEE ALSO\n.BR fairlock (1),\n.BR pthread_rwlock_rdlock (3),\n.BR pthread_mutex_lock (3)"
}
