#!/usr/bin/env bash
# Write recipe/rpg in the form of verl-recipe, as a pull request there would have it: README with Installation, Training,
# Evaluation and Citation, REQUIRED_VERL.txt, configuration, launch scripts. It runs inside a checkout of verl as
# recipe/rpg (or rpg/ of verl-recipe) with this package installed.
#
#   bash scripts/make_recipe.sh OUT    OUT: a directory that does not exist, such as ../verl/recipe/rpg
set -euo pipefail
out=${1:?usage: bash scripts/make_recipe.sh OUT}
[[ ! -e $out ]] || { echo "make_recipe.sh: $out exists; remove it, or name another directory" >&2; exit 2; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
verl=$(sed -n 's/^verl\[vllm\]==//p' requirement.txt)

git ls-files -z recipe/rpg | tar --create --null --files-from=- | tar --extract --strip-components=2 --directory "$out"
cat > "$out/REQUIRED_VERL.txt" <<TXT
# rpg: the release that this recipe is tested with
UPSTREAM=https://github.com/verl-project/verl.git
MODE=release
VERSION=$verl
PIP_INSTALL=pip install verl==$verl
TXT
cat > "$out/README.md" <<MD
# RPG: KL-regularized policy gradients

Losses, settings and launch scripts of *On the Design of KL-Regularized Policy Gradient Algorithms for LLM Reasoning*
([arXiv 2505.17508](https://arxiv.org/abs/2505.17508)), for verl's V1 trainer with FSDP2 and vLLM.

## Installation

\`\`\`bash
pip install 'verl[vllm]==$verl'            # REQUIRED_VERL.txt
pip install '.[system,schedulefree]'      # in a checkout of the package rpg-verl, which registers with verl
\`\`\`

## Training

In a checkout of verl with this directory as \`recipe/rpg\`:

\`\`\`bash
DATA_DIR=\$PWD/data bash RPG_VERL/scripts/prepare_data.sh          # RPG_VERL: the checkout of rpg-verl
bash recipe/rpg/7b/run_rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28.sh    # 8 x 80 GB; Hydra overrides may follow
\`\`\`

A script's name states the run; \`rpg list\` shows them. The scripts check the run before Ray starts, take the
configuration of the installed package, and resume. verl's own command takes the configuration here:

\`\`\`bash
python -m verl.trainer.main_ppo --config-path "\$PWD/recipe/rpg/config" --config-name rpg_trainer \\
    rpg.script=dapo_7b method=dapo
\`\`\`

\`reference=old\` (pi_ref = pi_old) trains there; other references and schedule-free AdamW need the scripts.

## Evaluation

\`rpg table checkpoints/*\` shows accuracy with intervals, \`rpg plot\` curves. \`rpg eval RUN\` validates a
checkpoint on AIME and AMC, \`rpg reproduce 8\` runs the paper's table 8. No run at the paper's size has been made with
this recipe.

## Citation

\`\`\`bibtex
$(sed -n '/^@inproceedings/,/^}/p' README.md)
\`\`\`
MD
echo "$out: $(find "$out" -type f | wc -l) files"
