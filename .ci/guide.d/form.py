"""Whether the examples in Rust, C and C++ are formatted: form.py FILE...

Of a page each block that begins with ```rust, ```c or ```cpp is looked at; of a source in Rust or a header, each
block in its comments. An example that rustfmt (with rustfmt.toml) or clang-format (with .clang-format) would
change is printed with what would change; exit 1. Such a check sees what a compiler does not: lines that a text
wrapper has joined.
"""

import difflib
import re
import subprocess
import sys
import textwrap

WIDTH = 100
FENCE = re.compile(r"^(?P<before>\s*(?:///|//!|\*)?\s*)```(?P<tags>\S*)$")
# Of rustdoc's words for a block, those that say that it is not an example in Rust.
OTHERS = re.compile(r"^(?:sh|text|toml|json|console)\b")
LANGUAGES = {"c": "c", "cpp": "cpp"}


def blocks(path):
    """(line, language, text) of each example."""
    is_page = path.endswith(".md")
    found, begins = [], None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        fence = FENCE.match(line.rstrip())
        if not fence or not (is_page or fence["before"].strip()):
            if begins is not None:
                found.append(line.rstrip()[len(prefix):])
            continue
        if begins is None:
            begins, prefix, tags = number, fence["before"], fence["tags"]
            continue
        language = LANGUAGES.get(tags)
        if tags.startswith("rust") or not (is_page or language or OTHERS.match(tags)):
            language = "rust"
        if language:
            yield begins, language, textwrap.dedent("\n".join(found)) + "\n"
        found, begins = [], None


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def rust(text):
    """As rustfmt has it: as a file, or as the body of a function, as rustdoc takes it."""
    # The reader does not see the lines that rustdoc hides.
    text = re.sub(r"^#(?: .*)?\n", "", text, flags=re.M)
    body = "fn main() {\n" + text + "}\n"
    for_body = run(["rustfmt", "--config", f"max_width={WIDTH + 4}"], body)
    if for_body.returncode == 0:
        lines = for_body.stdout.removeprefix("fn main() {\n").removesuffix("}\n").splitlines()
        return text, "".join(re.sub("^    ", "", line) + "\n" for line in lines), ""
    as_file = run(["rustfmt"], text)
    return text, as_file.stdout, as_file.stderr


def c(text, language):
    done = run(["clang-format", f"--assume-filename=example.{language}"], text)
    return text, done.stdout, done.stderr


bad = count = 0
for path in sys.argv[1:]:
    for line, language, text in blocks(path):
        count += 1
        is_now, should_be, error = rust(text) if language == "rust" else c(text, language)
        # No formatter looks into comments.
        swallowed = re.search(r"//.*[;{}]$", text, re.M)
        error = error or (swallowed and f"code in a comment: {swallowed[0]}")
        if error or is_now != should_be:
            bad += 1
            print(f"{path}:{line}: an example that is not formatted", error)
            if not error:
                diff = difflib.unified_diff(is_now.splitlines(), should_be.splitlines(), "is", "should be", n=0)
                print("\n".join(list(diff)[2:]))
print(f"form: {count} examples, {bad} of them are not formatted")
sys.exit(bad > 0 or count == 0)
