#!/usr/bin/env bash
# Builds every parquet file that the 7b and 4b launch scripts read, and checks them together.
#
#   bash scripts/prepare_data.sh                     from the Hugging Face hub into data/
#   FROM_DIR=downloads bash scripts/prepare_data.sh  from local copies NAME.parquet, .jsonl or .json if they exist
#   DATA_DIR=/big/disk bash scripts/prepare_data.sh  into another folder
#   FORCE=1 bash scripts/prepare_data.sh             rebuild existing files
#
# It needs a Python with the packages of LACKS and installs nothing. PYTHON names one; the default is the first with
# these packages of the active environment, .venv-gpu (scripts/setup_gpu.sh), .venv (scripts/setup.sh) and python3.
# Run it again after an interruption: complete files are kept.
set -euo pipefail
[[ $# == 0 ]] || { sed -n 2,11p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DATA_DIR=${DATA_DIR:-data}
FROM_DIR=${FROM_DIR:-}
FORCE=${FORCE:-0}
if [[ -n $FROM_DIR && ! -d $FROM_DIR ]]; then # the hub would be asked for every set
  echo "error: FROM_DIR=$FROM_DIR: no such folder; correct it, or leave it out to download the sets" >&2
  exit 2
fi

# What `rpg data` imports: pyarrow and mpmath for the rows, math_verify for the release's judge, datasets for the hub.
LACKS='
import importlib.util, sys
needed = ("pyarrow", "mpmath", "math_verify", "datasets")
old = ["Python 3.11"] if sys.version_info < (3, 11) else []
print(*old, *(name for name in needed if importlib.util.find_spec(name) is None), sep=", ")'
RPG_HOME=$PWD
. recipe/rpg/environment.sh
python='' refused=()
while IFS='=' read -r source candidate; do
  lacks=$("$candidate" -c "$LACKS" 2>&1) || lacks="working Python ($lacks)"
  if [[ -z $lacks ]]; then
    python=$candidate
    break
  fi
  refused+=("$source: $(command -v "$candidate" || echo "$candidate") has no $lacks")
  [[ $source != PYTHON ]] || break # it was named: that one or none
done < <(pythons gpu; [[ ! -x .venv/bin/python ]] || echo ".venv=$RPG_HOME/.venv/bin/python")
if [[ -z $python ]]; then
  printf 'error: %s\n' "${refused[@]}" >&2
  echo "Make an environment for the runs (bash scripts/setup_gpu.sh, or bash scripts/setup.sh for profile=cpu), or, for" \
    "this alone, pip install pyarrow mpmath math-verify datasets in one that is active." >&2
  exit 2
fi
echo "prepare_data: $(command -v "$python")"
rpg=("$python" -m rpg.cli)
# The test sets come first, because their problems are left out of the training files.
sets=$("$python" -c 'from rpg.registry.datasets import PUBLISHED
for split in "test", "train":
    print(*(name for name, row in PUBLISHED.items() if row.split == split))')
{ read -ra test_sets && read -ra train_sets; } <<<"$sets"

number=0
failed=()
# rpg ends with an ordinary exit code after Ctrl-C, so that the next set would begin
trap 'echo "prepare_data: interrupted; the same command goes on" >&2; exit 130' INT
build() { # NAME [extra arguments of `rpg data build`]
  local name=$1 extension from=()
  shift
  number=$((number + 1))
  echo "[$number/$((${#test_sets[@]} + ${#train_sets[@]}))] $name"
  if [[ -f "$DATA_DIR/$name.parquet" && "$FORCE" != 1 ]]; then
    echo "$DATA_DIR/$name.parquet is there already"
    return
  fi
  for extension in json jsonl parquet; do
    [[ -z $FROM_DIR || ! -f "$FROM_DIR/$name.$extension" ]] || from=(--from "$FROM_DIR/$name.$extension")
  done
  "${rpg[@]}" data build "$name" --out "$DATA_DIR" "${from[@]}" "$@" || failed+=("$name")
}

tests=("${test_sets[@]/#/$DATA_DIR/}") trains=("${train_sets[@]/#/$DATA_DIR/}")
tests=("${tests[@]/%/.parquet}") trains=("${trains[@]/%/.parquet}")
for name in "${test_sets[@]}"; do
  build "$name"
done
if ((${#failed[@]})); then
  failed+=("${train_sets[@]/%/ (waits for the test sets)}")
else
  for name in "${train_sets[@]}"; do
    build "$name" --exclude "${tests[@]}"
  done
fi

if ((${#failed[@]})); then
  printf 'not built: %s\n' "${failed[@]}" >&2
  echo "Correct what the messages above say and run this script again; what is built stays." >&2
  exit 1
fi
"${rpg[@]}" data check "${trains[@]}" "${tests[@]}"
