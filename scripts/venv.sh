# Sourced by setup.sh and setup_gpu.sh at the root: find a Python 3.11 or 3.12 and make an environment.

stop() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }
say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
# pip ends with an ordinary exit code after Ctrl-C, so that this script would go on
trap 'echo "$(basename "$0" .sh): interrupted; the same command begins again" >&2; exit 130' INT
fits() { [[ $(version "$1") == 3.1[12] ]]; }

# during WHAT COMMAND...: say WHAT, run COMMAND, and say every ten seconds that it still runs. The lines come from a
# process of their own, which ends within a second of this script, and COMMAND stays in the foreground for Ctrl-C.
during() {
    local what=$1 code=0 teller
    shift
    say "$what"
    (
        for ((seconds = 1; ; seconds++)); do
            sleep 1
            kill -0 $$ 2>/dev/null || exit
            ((seconds % 10)) || say "$what: $seconds s so far"
        done
    ) &
    teller=$!
    "$@" || code=$?
    kill "$teller"
    wait "$teller" 2>/dev/null || true
    return "$code"
}

pinned() { grep "^$1==" requirements/cpu.txt; }

# find_python CANDIDATE...: set `python` to the first that fits, else to one that uv installs.
find_python() {
    local candidate uv
    python=
    for candidate in "$@"; do
        if fits "$candidate"; then python=$candidate; return; fi
    done
    uv=$(command -v uv || true)
    if [[ -z $uv ]]; then # any Python can fetch it
        temporary=$(mktemp -d)
        trap 'rm -rf "$temporary"' EXIT
        uv=$temporary/bin/uv
        { python3 -m venv "$temporary" >/dev/null 2>&1 &&
            "$temporary/bin/pip" install --quiet --disable-pip-version-check "$(pinned uv)"; } \
            || stop "no Python 3.11 or 3.12 found, nor uv, nor a python3 that could fetch uv. Install Python" \
                "(Ubuntu 24.04: apt install python3.12-venv) or uv, or name a Python that is there:" \
                "PYTHON=/path/to/python3.12 bash scripts/$(basename "$0")"
    fi
    UV_PYTHON_INSTALL_BIN=0 during "no Python 3.11 or 3.12 found: uv installs 3.11 into its own folder (30 MB)" \
        "$uv" python install --quiet 3.11 \
        || stop "uv could not install Python 3.11; the message above says why"
    python=$("$uv" python find --system 3.11)
}

# make_venv DIRECTORY: make an environment of $python with pip, unless it exists.
make_venv() {
    # pip of a checkout that was moved does not start
    if "$1/bin/pip" --version >/dev/null 2>&1 && [[ $(version "$1/bin/python") == "$(version "$python")" ]]; then return; fi
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv --clear "$1"
    elif command -v uv >/dev/null; then # Ubuntu's Python comes without ensurepip
        uv venv --quiet --clear --seed --python "$python" "$1"
    else
        stop "$python cannot make $1, it lacks the module ensurepip:" \
            "apt install python$(version "$python")-venv, or install uv"
    fi
}
