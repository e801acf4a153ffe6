#!/usr/bin/env bash
# launch.sh SCRIPT OVERRIDE...: start a run under the name of the file SCRIPT, yours or the recipe's; each OVERRIDE is
# Hydra's. launch.sh NAME OVERRIDE...: the same as run_NAME.sh of the recipe.
# DRY_RUN=1 prints the resolved configuration instead. Environment: recipe/rpg/README.md.
set -euo pipefail

usage() {
    echo "usage: bash run_NAME.sh [KEY=VALUE...], or bash launch.sh NAME [KEY=VALUE...]"
    echo "Each KEY=VALUE is a Hydra override, as in trainer.total_training_steps=5. DRY_RUN=1 prints the configuration."
    echo "Environment: MODEL_PATH TRAIN_FILE TEST_FILE CKPTS_DIR NNODES RAY_ADDRESS (recipe/rpg/README.md)."
}
if (($# == 0)); then
    usage >&2
    exit 2
fi
for argument in "$@"; do
    if [[ $argument == --help || $argument == -h ]]; then
        usage
        exit 0
    fi
done

recipe=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(cd "$recipe/../.." && pwd)
owner= # the interpreter that an installed package belongs to, which need not be active
if [[ $root =~ ^(.*)/lib/(python3[0-9.]*)/(site|dist)-packages$ ]]; then
    owner=${BASH_REMATCH[1]}/bin/${BASH_REMATCH[2]}
elif [[ $root == *:* ]]; then
    echo "error: $root: Python cannot import from a directory with a colon in its path; move the checkout" >&2
    exit 2
else
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
fi
if [[ $recipe == */recipe/rpg ]]; then
    export RPG_HOME=$root # a checkout; an installed package has its data and runs where you are
else
    export RPG_HOME=${RPG_HOME:-$PWD}
fi
script=$1
if [[ ! -f $script ]]; then
    name=$(basename "$script" .sh) name=${name#run_}
    for script in "$recipe"/*/"run_$name.sh"; do
        [[ ! -f $script ]] || exec bash "$script" "${@:2}"
    done
    echo "error: $1: no such script or name; without one: rpg train method=... trainer.experiment_name=$name" >&2
    exit 2
fi
shift
profile=gpu # rpg_trainer.yaml's; of several the last counts, as for Hydra
for argument in "$@"; do
    [[ $argument != profile=* ]] || profile=${argument#profile=}
done
[[ $profile != cpu_bf16 ]] || profile=cpu # in its environment
. "$recipe/environment.sh"
choose_python "$profile" "$owner"
if [[ $profile != cpu ]]; then
    echo "environment: $(command -v "$PYTHON") (from $PYTHON_FROM)" >&2
elif [[ -z $owner && $PYTHON_FROM != PYTHON && $PYTHON_FROM != .venv ]]; then
    echo "note: profile=cpu is for .venv, which bash scripts/setup.sh makes; without it: $(command -v "$PYTHON")" >&2
fi
exec "$PYTHON" -m rpg.run "$script" "$@"
