#!/usr/bin/env bash
# Resolve requirement.txt for Linux x86-64 on Python 3.11 and 3.12, without installing anything.
# flash-attn is published as source alone, whose metadata needs torch to be built: it is stated here instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
config=$(mktemp --suffix=.toml)
trap 'rm -f "$config"' EXIT
cat > "$config" <<TOML
[[pip.dependency-metadata]]
name = "flash-attn"
version = "2.8.3"
requires-dist = ["torch", "einops"]
TOML
for version in 3.11 3.12; do
    resolved=$(.venv/bin/uv pip compile --quiet --no-header --no-annotate --config-file "$config" \
        --python-version "$version" --python-platform x86_64-manylinux_2_28 requirement.txt)
    echo "Python $version: $(grep -c '==' <<< "$resolved") packages;" \
        "$(grep -E '^(verl|torch|vllm|ray|transformers|flash-attn|pandas|pyarrow|hydra-core|wandb|schedulefree)(\[[a-z]*\])?==' <<< "$resolved" | tr '\n' ' ')"
done
