
# Bash ends words at colons, which our locks have in their names, and takes a list with commas for
# one word. So this function asks the function that clap generated to complete only what stands
# behind the last comma of the whole word. Then it takes from each answer all up to the last
# colon, which bash does not replace.
_fairlock_lists() {
    local line="${COMP_LINE:0:COMP_POINT}" word flag kept= replaced answer
    word="${line##*[[:space:]]}"
    read -r -a flag <<<"${line%"$word"}"
    flag="${flag[${#flag[@]} - 1]}"
    if [[ $word == --*=* ]]; then
        flag="${word%%=*}"
        word="${word#*=}"
    fi
    if [[ $word == *,* ]]; then
        kept="${word%,*},"
    fi
    _fairlock "$1" "${word#"$kept"}" "$flag"
    replaced="$word"
    if [[ $COMP_WORDBREAKS == *:* ]]; then
        replaced="${word##*:}"
    fi
    for answer in "${!COMPREPLY[@]}"; do
        COMPREPLY[answer]="$kept${COMPREPLY[answer]}"
        COMPREPLY[answer]="${COMPREPLY[answer]#"${word%"$replaced"}"}"
    done
}
complete -F _fairlock_lists -o bashdefault -o default fairlock
