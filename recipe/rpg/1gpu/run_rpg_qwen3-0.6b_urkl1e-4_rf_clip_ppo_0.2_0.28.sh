#!/usr/bin/env bash
# RPG-REINFORCE-URKL, beta 1e-4, clip (0.2, 0.28); Qwen3-0.6B, GSM8K, one GPU
# Never run on a GPU by its authors; `rpg plan` estimates its memory.
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=one_gpu model=qwen3-0.6b dataset=gsm8k optim=adamw method=rpg_rf_clip_ppo rpg.divergence=urkl \
    rpg.kl_coef=1e-4 clip=0.2_0.28 "$@"
