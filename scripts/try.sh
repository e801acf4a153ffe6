# Sourced by check_gpu.sh and check_gpu_environment.sh, which set `directory`. Each check writes its output to a file there
# and prints one line. Output lines that begin with "figure: " go into the table.

trap 'echo "interrupted" >&2; exit 130' INT # otherwise Ctrl-C would fail one check, and the next would begin
failed=0 number=0
table=()
try() { # WHAT COMMAND...
    local what=$1 began=$SECONDS log verdict=ok figures
    shift
    number=$((number + 1))
    log=$directory/$number.log
    set +e # in a list with || the command's own set -e would be off, and its last line alone would decide
    (set -e; "$@") >"$log" 2>&1
    (($? == 0)) || verdict=FAIL
    set -e
    figures=$(sed -n 's/^\(.*[^a-z]\)\{0,1\}figure: //p' "$log" | paste -sd ';' | sed 's/;/; /g')
    printf '%4d s  %-4s  %s%s\n' $((SECONDS - began)) "$verdict" "$what" "${figures:+: $figures}"
    table+=("| $what | $verdict | $((SECONDS - began)) | $figures |")
    if [[ $verdict == FAIL ]]; then
        failed=$((failed + 1))
        echo "the end of $log:"
        tail -n 25 "$log"
    fi
}
