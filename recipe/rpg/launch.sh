#!/usr/bin/env bash
# launch.sh SCRIPT OVERRIDE...: start a run under the name of SCRIPT; each OVERRIDE is Hydra's.
# DRY_RUN=1 prints the resolved configuration instead. Environment: recipe/rpg/README.md.
set -euo pipefail

RPG_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export RPG_HOME
export PYTHONPATH="$RPG_HOME${PYTHONPATH:+:$PYTHONPATH}"
if [[ -z ${PYTHON:-} ]]; then
    PYTHON=python3
    [[ -z ${VIRTUAL_ENV:-} && -x $RPG_HOME/.venv/bin/python ]] && PYTHON=$RPG_HOME/.venv/bin/python
fi

name=$(basename "$1" .sh)
shift
exec "$PYTHON" -m recipe.rpg.main_rpg "rpg.script=${name#run_}" "$@"
