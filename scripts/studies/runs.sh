#!/usr/bin/env bash
# The runs of a study, into docs/results/NAME.parquet; all but pretrained on chain_sum (scripts/studies/chain.py).
#   bash scripts/studies/runs.sh pretrained|study|factors|stability|ahead|scope [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/runs.sh factors
# pretrained: SmolLM2-135M on sums, three seeds (rpg/toy/smollm2.py).
# study: the twelve rows of the paper's table 8 and GRPO-corrected at one learning rate, with 16 optimizer steps per
#   batch as in the paper, and the six main methods with 2 and 64 steps, three seeds each; on more seeds two losses with
#   exchanged advantages, and the methods that were highest and lowest.
# factors: filter on or off, advantages divided by the group's deviation or not, RPG-REINFORCE-URKL or DAPO, in every
#   combination, with equal shaping, bounds (0.2, 0.28), batches and validation; with the filter also at half the rate,
#   which the release gives RPG-REINFORCE.
# stability: eight losses with equal advantages and shaping at twice the learning rate.
# scope: SmolLM2-135M, KL of tokens or of responses to the initial model, beta 0.1, 20 steps (expectations.md, 3).
# ahead: rollouts four batches ahead, three choices of pi_old, with and without a clip (expectations.md, 2).
# Three minutes per run on two cores, 14 of SmolLM2 (25 without AVX512-BF16). A finished run is kept, an interrupted one
# resumes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rpg=$PWD/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
python=${rpg%rpg}python
name=${1:-}
[[ $name =~ ^(pretrained|study|factors|stability|ahead|scope)$ ]] || { sed -n 3p scripts/studies/runs.sh >&2; exit 2; }
shift
runs=$PWD/checkpoints/$name
[[ $name =~ ^(pretrained|scope)$ || -f runs/chain/model/model.safetensors ]] || "$python" -m scripts.studies.chain runs/chain

# One run of factors or stability: 12 batches of 32 prompts with 8 responses, 16 optimizer steps per batch, and 8
# answers to each of 128 problems at the end. Needs $rate and $seed.
train() { # NAME SCRIPT OVERRIDES...
    local run=$runs/$1-seed$seed script=recipe/rpg/cpu/run_$2.sh
    shift 2
    [[ -d $run/global_step_12 ]] && return
    bash "$script" dataset=chain model=chain actor_rollout_ref.rollout.n=8 data.train_batch_size=32 \
        actor_rollout_ref.actor.ppo_mini_batch_size=2 "actor_rollout_ref.actor.optim.lr=$rate" \
        actor_rollout_ref.rollout.val_kwargs.n=8 data.val_max_samples=128 trainer.val_before_train=false \
        trainer.test_freq=12 trainer.save_freq=12 trainer.total_training_steps=12 \
        "data.seed=$seed" "trainer.default_local_dir=$run" "$@"
}

# Runs of the study: 384 prompts with 8 responses each, 32 at a time, or one for each of 64 steps. Needs $rate, $seeds.
table_8() { # DIRECTORY OPTIMIZER_STEPS METHODS... -- OVERRIDES...
    local directory=$1 steps=$2 methods=() prompts
    prompts=$((steps > 32 ? steps : 32))
    shift 2
    while [[ $1 != -- ]]; do methods+=("$1"); shift; done
    shift
    "$rpg" reproduce 8 dataset=chain model=chain "data.train_batch_size=$prompts" actor_rollout_ref.rollout.n=8 \
        "actor_rollout_ref.actor.ppo_mini_batch_size=$((prompts / steps))" "actor_rollout_ref.actor.optim.lr=$rate" \
        trainer.val_before_train=false "trainer.test_freq=$((192 / prompts))" "$@" --profile cpu \
        --methods "${methods[@]}" --seeds "${seeds[@]}" --steps $((384 / prompts)) --out "$runs/$directory"
}

study() {
    local rate seeds main=(grpo dapo rpg-ufkl rpg-urkl rpg-reinforce-ufkl rpg-reinforce-urkl)
    seeds=(11) # these chose the learning rate
    for rate in 5e-5 1e-4 2e-4; do
        table_8 "lr_$rate" 16 grpo rpg-reinforce-urkl -- trainer.val_before_train=true "$@"
    done
    rate=1e-4 seeds=(1 2 3)
    table_8 steps_16 16 paper grpo-corrected -- "$@"
    table_8 steps_2 2 "${main[@]}" -- "$@"
    table_8 steps_64 64 "${main[@]}" -- "$@"
    seeds+=(4 5 6 7 8 9)
    table_8 advantages/divided 16 rpg-reinforce-urkl -- algorithm.adv_estimator=grpo "$@"
    table_8 advantages/not_divided 16 grpo -- algorithm.norm_adv_by_std_in_grpo=false "$@"
    seeds=(4 5 6 7 8 9)
    table_8 advantages_own 16 grpo rpg-reinforce-urkl -- "$@"
    table_8 advantages_twice 16 grpo rpg-reinforce-urkl -- "$@" # what a seed does not fix
    table_8 extremes/highest 16 reinforce++ -- "$@"
    table_8 extremes/lowest 16 rpg-fkl -- "$@"
}

factors() {
    local seed cell on rate cells filter=algorithm.filter_groups.enable
    for seed in ${SEEDS:-1 2 3 4 5 6 7}; do
        cells=(true false)
        ((seed > 4)) || cells+=(true-half)
        for cell in "${cells[@]}"; do
            on=${cell%-half}
            [[ $cell == *-half ]] && rate=5e-5 || rate=1e-4
            train "rpg-divided-$cell" rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28 algorithm.adv_estimator=grpo $filter=$on "$@"
            train "dapo-divided-$cell" dapo_cpu $filter=$on "$@"
            train "rpg-mean-$cell" rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28 $filter=$on "$@"
            train "dapo-mean-$cell" dapo_cpu algorithm.norm_adv_by_std_in_grpo=false $filter=$on "$@"
        done
    done
}

smollm2=recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref_smollm2.sh

# One run of SmolLM2. Needs $seed.
pretrain() { # NAME STEPS OVERRIDES...
    local run=$runs/$1-seed$seed steps=$2
    shift 2
    [[ -d $run/global_step_$steps ]] || bash "$smollm2" "data.seed=$seed" "trainer.default_local_dir=$run" \
        "trainer.total_training_steps=$steps" "$@"
}

# The most likely answers of a checkpoint, or of the untrained model.
greedy() { # NAME [--checkpoint DIR]
    local sampling=actor_rollout_ref.rollout.val_kwargs out=$runs/$1
    shift
    [[ -f $out/metrics.jsonl ]] || "$rpg" eval "$smollm2" "$@" --samples 1 --out "$out" $sampling.do_sample=false \
        $sampling.temperature=0
}

pretrained() {
    local seed
    "$rpg" demo --prepare-only
    for seed in ${SEEDS:-1 2 3}; do
        pretrain smollm2 30 trainer.test_freq=5 "$@"
        greedy "greedy-seed$seed" --checkpoint "$runs/smollm2-seed$seed/global_step_30"
    done
    greedy untrained-seed0
}

stability() {
    local seed rate=2e-4 rf=rpg_cpu_urkl1e-4_rf
    local hard=actor_rollout_ref.actor.policy_loss.loss_mode=rpg_rf_urkl_clip_hard
    for seed in ${SEEDS:-1 2 3 4 5 6}; do
        train unclipped $rf "$@"
        train rpg_style_0.1_0.1 ${rf}_clip_ppo_0.1_0.1 "$@"
        train rpg_style_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 "$@"
        train ufkl_0.03 rpg_cpu_ufkl1e-4_rf rpg.kl_coef=0.03 "$@"
        train grpo grpo_cpu actor_rollout_ref.actor.clip_ratio_high=0.28 algorithm.norm_adv_by_std_in_grpo=false \
            reward.reward_kwargs.overlong_buffer_cfg.enable=true "$@"
        train urkl_0.03 $rf rpg.kl_coef=0.03 "$@"
        train urkl_0.03_clipped ${rf}_clip_ppo_0.2_0.28 rpg.kl_coef=0.03 "$@"
        train hard_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 "$hard" "$@"
    done
}

ahead() { # the arms of the primary outcome first
    local arms arm script seed rate=1e-4
    local four=(schedule=async trainer.v1.colocate_async.num_warmup_batches=4 trainer.test_freq=3)
    for arms in "clip-recomputed clip-decoupled" "clip-behavior none-recomputed none-decoupled none-behavior"; do
        for seed in ${SEEDS:-1 2 3 4 5 6 7 8}; do
            for arm in $arms; do
                script=rpg_cpu_urkl1e-4_rf
                [[ $arm == none-* ]] || script+=_clip_ppo_0.2_0.28
                train "$arm" "$script" "${four[@]}" "pi_old=${arm#*-}" "$@"
            done
        done
    done
}

scope() {
    local seed kl
    "$rpg" demo --prepare-only
    for seed in ${SEEDS:-1 2 3 4}; do
        for kl in token response; do
            pretrain "$kl" 20 rpg.kl_coef=0.1 "rpg.kl_scope=$kl" trainer.test_freq=-1 trainer.val_before_train=false "$@"
        done
    done
}

"$name" "$@"
[[ $name == scope ]] && pack=scope || pack=pack
"$python" -m "scripts.studies.$pack" "$runs" "docs/results/$name.parquet"
"$python" -m scripts.studies "$name" --out docs/results
