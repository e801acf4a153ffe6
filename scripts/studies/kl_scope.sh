#!/usr/bin/env bash
# Does the KL of responses (rpg.kl_scope=response, docs/mathematics.md) find a better policy than the KL per token? The
# study's task at its learning rate with a fixed reference and two betas: RPG-REINFORCE-URKL with RPG-Style Clip with
# either scope, and k1 in the reward with PPO's clip at the same bounds. Advantages, overlong shaping, batches and
# validation are equal.
#   bash scripts/studies/kl_scope.sh [OVERRIDE...]
#   SEEDS="1 2" BETAS=0.1 bash scripts/studies/kl_scope.sh
# Two and a half minutes per run on two cores. A finished run is kept, an interrupted one resumes. Expectations:
# docs/results/expectations.md.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/chain_train.sh"

rate=1e-4
runs=checkpoints/kl_scope
out=docs/results/kl_scope
urkl=rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28
for seed in ${SEEDS:-1 2 3 4 5 6}; do
    for beta in ${BETAS:-0.1 0.3}; do
        train "token_$beta" $urkl reference=fixed "rpg.kl_coef=$beta" "$@"
        train "response_$beta" $urkl reference=fixed "rpg.kl_coef=$beta" rpg.kl_scope=response "$@"
        train "reward_$beta" kl_in_reward_cpu_1e-4 "rpg.kl_coef=$beta" actor_rollout_ref.actor.clip_ratio_high=0.28 \
            reward.reward_kwargs.overlong_buffer_cfg.enable=true "$@"
    done
done
"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/kl_scope_measure.py "$runs" "$out"
"$python" scripts/studies/kl_scope_report.py "$out" "$out"
