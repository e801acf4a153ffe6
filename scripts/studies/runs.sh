#!/usr/bin/env bash
# The runs of a study, into docs/results/NAME.parquet; all but pretrained on the task of scripts/studies/chain.py.
#   bash scripts/studies/runs.sh pretrained|study|penalty|factors|stability|ahead [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/runs.sh factors
# pretrained: SmolLM2-135M on sums, five seeds (rpg/toy/smollm2.py), and on two tasks of reasoning-gym, three each.
# study: the twelve rows of the paper's table 8 and GRPO-corrected with 16 optimizer steps per batch as in the paper,
#   three seeds; on six others two losses with exchanged advantages, and the methods that were highest and lowest.
# penalty: GRPO with and without the overlong penalty of the eight rows, beside one of these (expectations.md, 7).
# factors: filter on or off, advantages divided by the group's deviation or not, RPG-REINFORCE-URKL or DAPO, in every
#   combination, with equal shaping, bounds (0.2, 0.28), batches and validation; with the filter also at half the rate,
#   which the release gives RPG-REINFORCE.
# stability: eight losses with equal advantages and shaping at twice the learning rate.
# ahead: rollouts four batches ahead, three choices of pi_old, with and without a clip (expectations.md, 2).
# Three minutes per run on two cores, 14 of SmolLM2 (25 without AVX512-BF16), 27 on needle_haystack. A finished run is
# kept, an interrupted one resumes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rpg=$PWD/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
python=${rpg%rpg}python
name=${1:-}
[[ $name =~ ^(pretrained|study|penalty|factors|stability|ahead)$ ]] || { sed -n 3p scripts/studies/runs.sh >&2; exit 2; }
shift
runs=$PWD/checkpoints/$name rf=rpg_cpu_urkl1e-4_rf
actor=actor_rollout_ref.actor sampling=actor_rollout_ref.rollout.val_kwargs
divide=algorithm.norm_adv_by_std_in_grpo loss=actor_rollout_ref.actor.policy_loss
# a method decides its estimator, so that RPG-REINFORCE with GRPO's advantages states every key
divided=(method=null rpg.method=rpg_rf_clip_ppo algorithm.adv_estimator=grpo "$loss.loss_mode=rpg_rf_urkl_clip_ppo"
    "$loss._target_=rpg.verl_plugin.config.RPGPolicyLossConfig" "+$loss.kl_coef=1e-4" "+$loss.kl_scope=token"
    "+$loss.rho_bound=2.0")
# 12 batches of 32 prompts with 8 responses, 16 optimizer steps per batch
task=(dataset=chain model=chain actor_rollout_ref.rollout.n=8 data.train_batch_size=32 "$actor.ppo_mini_batch_size=2"
    trainer.val_before_train=false)
[[ $name == pretrained || -f runs/chain/model/model.safetensors ]] || "$python" -m scripts.studies.chain runs/chain

# One run, with 8 answers to each of 128 problems at the end. Needs $rate and $seed.
train() { # NAME SCRIPT OVERRIDES...
    local run=$runs/$1-seed$seed script=recipe/rpg/cpu/run_$2.sh
    shift 2
    [[ -d $run/global_step_12 ]] && return
    bash "$script" "${task[@]}" "$actor.optim.lr=$rate" "$sampling.n=8" data.val_max_samples=128 trainer.test_freq=12 \
        trainer.save_freq=12 trainer.total_training_steps=12 "data.seed=$seed" "trainer.default_local_dir=$run" "$@"
}

# Runs of table 8. Needs $seeds.
table_8() { # DIRECTORY METHODS OVERRIDES...
    local directory=$1 methods
    read -ra methods <<<"$2"
    shift 2
    "$rpg" reproduce 8 "${task[@]}" "$actor.optim.lr=1e-4" trainer.test_freq=6 "$@" --profile cpu --steps 12 \
        --methods "${methods[@]}" --seeds "${seeds[@]}" --out "$runs/$directory"
}

study() {
    local seeds=(1 2 3)
    table_8 steps_16 "paper grpo-corrected" "$@"
    seeds=(4 5 6 7 8 9)
    table_8 advantages/divided rpg-reinforce-urkl "${divided[@]}" "$@"
    table_8 advantages/not_divided grpo "$divide=false" "$@"
    table_8 advantages_own "grpo rpg-reinforce-urkl" "$@"
    table_8 advantages_twice "grpo rpg-reinforce-urkl" "$@" # what a seed does not fix
    table_8 extremes/highest reinforce++ "$@"
    table_8 extremes/lowest rpg-fkl "$@"
}

penalty() {
    local seeds penalised=(method=null clip=0.2_0.2 rpg.method=grpo algorithm.adv_estimator=grpo
        algorithm.filter_groups.enable=false "$actor.use_kl_loss=true" "$actor.kl_loss_type=low_var_kl"
        "$actor.kl_loss_coef=1e-3" reward.reward_kwargs.overlong_buffer_cfg.enable=true) # else those of method=grpo
    for seeds in ${SEEDS:-2 3 4 5 6 7 8 9}; do
        table_8 with grpo "${penalised[@]}" "$@"
        table_8 without "grpo rpg-reinforce-urkl" "$@"
    done
}

factors() {
    local seed cell rate cells filter dapo=(method=null rpg.method=dapo algorithm.adv_estimator=grpo)
    for seed in ${SEEDS:-1 2 3 4 5 6 7}; do
        cells=(true false)
        ((seed > 4)) || cells+=(true-half)
        for cell in "${cells[@]}"; do
            filter=algorithm.filter_groups.enable=${cell%-half}
            [[ $cell == *-half ]] && rate=5e-5 || rate=1e-4
            train "rpg-divided-$cell" "${rf}_clip_ppo_0.2_0.28" "${divided[@]}" "$filter" "$@"
            train "dapo-divided-$cell" dapo_cpu "${dapo[@]}" "$filter" "$@"
            train "rpg-mean-$cell" "${rf}_clip_ppo_0.2_0.28" "$filter" "$@"
            train "dapo-mean-$cell" dapo_cpu "${dapo[@]}" "$divide=false" "$filter" "$@"
        done
    done
}

# One run of SmolLM2. Needs $script and $seed.
smollm2() { # NAME STEPS OVERRIDES...
    local run=$runs/$1-seed$seed steps=$2
    shift 2
    [[ -d $run/global_step_$steps ]] || bash "$script" "data.seed=$seed" "trainer.default_local_dir=$run" \
        "trainer.total_training_steps=$steps" trainer.test_freq=5 "$@"
}

# The files of a task of reasoning-gym.
build() { # TASK TRAINING_PROBLEMS EXAMPLES OPTIONS...
    "$rpg" data build "reasoning_gym:$1" --train-size "$2" --test-size 50 --few-shot "$3" --set "${@:4}" \
        --template <(echo '{question} {answer}') --out runs/gym
}

# One run of SmolLM2 on it. Needs $script and $seed.
gym() { # TASK OVERRIDES...
    TRAIN_FILE=$PWD/runs/gym/$1_train.parquet TEST_FILE=$PWD/runs/gym/$1_test.parquet smollm2 "$1" 30 "${@:2}"
}

pretrained() {
    local seed script=recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref_smollm2.sh run
    local greedy=("$sampling.n=1" "$sampling.do_sample=false" "$sampling.temperature=0") # the likeliest answers
    "$rpg" demo --prepare-only
    for seed in ${SEEDS:-3 4 5 6 7}; do
        smollm2 smollm2 30 "$@"
        [[ -f $runs/greedy-seed$seed/metrics.jsonl ]] ||
            "$rpg" eval "$runs/smollm2-seed$seed/global_step_30" --out "$runs/greedy-seed$seed" "${greedy[@]}"
    done
    build chain_sum 150 1 min_terms=2 max_terms=2 min_digits=1 max_digits=1
    for seed in ${SEEDS:-6 7 8}; do
        gym chain_sum data.max_prompt_length=36 "$@"
    done
    build needle_haystack 300 2 min_num_statements=2 max_num_statements=2
    for seed in ${SEEDS:-2 3 4}; do
        gym needle_haystack data.max_prompt_length=150 data.max_response_length=9 "$@"
    done
    run=$runs/untrained-seed0
    [[ -f $run/metrics.jsonl ]] ||
        bash "$script" trainer.val_only=true "trainer.default_local_dir=$run" "${greedy[@]}" "$@"
}

stability() {
    local seed rate=2e-4
    for seed in ${SEEDS:-1 2 3 4 5 6}; do
        train unclipped $rf "$@"
        train rpg_style_0.1_0.1 ${rf}_clip_ppo_0.1_0.1 "$@"
        train rpg_style_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 "$@"
        train ufkl_0.03 rpg_cpu_ufkl1e-4_rf rpg.kl_coef=0.03 "$@"
        train grpo grpo_cpu $actor.clip_ratio_high=0.28 $divide=false \
            method=null rpg.method=grpo algorithm.adv_estimator=grpo algorithm.filter_groups.enable=false \
            $actor.use_kl_loss=true $actor.kl_loss_type=low_var_kl $actor.kl_loss_coef=1e-3 "$@"
        train urkl_0.03 $rf rpg.kl_coef=0.03 "$@"
        train urkl_0.03_clipped ${rf}_clip_ppo_0.2_0.28 rpg.kl_coef=0.03 "$@"
        train hard_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 method=rpg_rf_clip_hard "$@"
    done
}

ahead() { # the arms of the primary outcome first
    local arms arm script seed rate=1e-4
    local four=(schedule=async trainer.v1.colocate_async.num_warmup_batches=4 trainer.test_freq=3)
    for arms in "clip-recomputed clip-decoupled" "clip-behavior none-recomputed none-decoupled none-behavior"; do
        for seed in ${SEEDS:-1 2 3 4 5 6 7 8}; do
            for arm in $arms; do
                [[ $arm == none-* ]] && script=$rf || script=${rf}_clip_ppo_0.2_0.28
                train "$arm" "$script" "${four[@]}" "pi_old=${arm#*-}" "$@"
            done
        done
    done
}

"$name" "$@"
"$python" -m scripts.studies.pack "$runs" "docs/results/$name.parquet"
"$python" -m scripts.studies "$name" --out docs/results
