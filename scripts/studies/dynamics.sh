#!/usr/bin/env bash
# Do methods differ in entropy, length or pass@8 at equal accuracy? Four times the study's batches at its
# learning rate: RPG-REINFORCE-URKL with RPG-Style Clip with its own and with REINFORCE++'s advantages, DAPO's loss
# without the filter, and GRPO's with its k3 to a fixed reference. Overlong shaping, bounds (0.2, 0.28), batches and
# validation are equal.
#   bash scripts/studies/dynamics.sh [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/dynamics.sh
# Eight minutes per run on two cores. A finished run is kept, an interrupted one resumes. Expectations:
# docs/results/expectations.md.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/chain_train.sh"

rate=1e-4
steps=48
runs=checkpoints/dynamics
out=docs/results/dynamics
urkl=rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28
for seed in ${SEEDS:-1 2 3 4 5 6}; do
    train rpg $urkl trainer.test_freq=6 "$@"
    train whitened $urkl algorithm.adv_estimator=reinforce_plus_plus trainer.test_freq=6 "$@"
    train divided dapo_cpu algorithm.filter_groups.enable=false trainer.test_freq=6 "$@"
    train divided_k3 grpo_cpu actor_rollout_ref.actor.clip_ratio_high=0.28 \
        reward.reward_kwargs.overlong_buffer_cfg.enable=true trainer.test_freq=6 "$@"
done
"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/dynamics_report.py "$out" "$out"
