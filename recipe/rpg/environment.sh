# Which Python a script takes; sourced by launch.sh, scripts/prepare_data.sh and scripts/setup_gpu.sh with RPG_HOME set.
# .venv (scripts/setup.sh) holds CPU builds and is profile=cpu's alone; .venv-gpu is scripts/setup_gpu.sh's.

# pythons PROFILE [OWNER]: every interpreter that could be meant, the best first, a line SOURCE=INTERPRETER each. OWNER:
# that of the environment that an installed package is in.
pythons() {
    if [[ -n ${PYTHON:-} ]]; then echo "PYTHON=$PYTHON"; fi
    if [[ -x ${2:-} ]]; then echo "the package's environment=$2"; fi
    if [[ $1 == cpu && -x $RPG_HOME/.venv/bin/python ]]; then echo ".venv=$RPG_HOME/.venv/bin/python"; fi
    # scripts/setup_gpu.sh would install over setup.sh's builds, if that environment is active
    if [[ -n ${VIRTUAL_ENV:-} && ($1 == cpu || ! -f $VIRTUAL_ENV/.rpg-setup) ]]; then echo "VIRTUAL_ENV=$VIRTUAL_ENV/bin/python3"; fi
    if [[ -n ${CONDA_PREFIX:-} ]]; then echo "CONDA_PREFIX=$CONDA_PREFIX/bin/python3"; fi
    if [[ $1 != cpu && -x $RPG_HOME/.venv-gpu/bin/python ]]; then echo ".venv-gpu=$RPG_HOME/.venv-gpu/bin/python"; fi
    echo "PATH=python3"
}

# choose_python PROFILE [OWNER]: sets PYTHON to the first of them, and PYTHON_FROM to its source. Ends with 2 where that
# is none.
choose_python() {
    local chosen
    read -r chosen < <(pythons "$@")
    PYTHON_FROM=${chosen%%=*} PYTHON=${chosen#*=}
    if ! command -v "$PYTHON" >/dev/null; then
        echo "error: $PYTHON_FROM says $PYTHON, and there is no such program;" \
            "activate another environment, or name a Python: PYTHON=/path/to/python3" >&2
        exit 2
    fi
}
