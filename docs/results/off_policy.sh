#!/usr/bin/env bash
# docs/off-policy.md's question on the real stack: five methods on the toy task, training synchronous and 1 and 4
# batches behind the rollouts, with each pi_old that is another one there; tables, pictures and page go to off_policy/.
#   bash docs/results/off_policy.sh [OVERRIDE...]
# Two to three minutes a run on two idle cores, 35 runs. What is finished is kept, what was begun goes on.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
runs=$root/checkpoints/off_policy
out=$root/docs/results/off_policy
steps=24
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
cd "$root"

# Eight optimizer steps a batch, where the demo has two; a checkpoint only to go on from
train() {
    local name=$1 script=recipe/rpg/cpu/run_$2.sh
    shift 2
    [[ -d $runs/$name/global_step_$steps ]] || bash "$script" "trainer.default_local_dir=$runs/$name" \
        data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=2 \
        "trainer.total_training_steps=$steps" trainer.test_freq=8 trainer.save_freq=12 \
        trainer.max_actor_ckpt_to_keep=1 actor_rollout_ref.rollout.val_kwargs.n=4 "$@"
}

methods=(rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28 rpg_cpu_urkl1e-4_rf grpo_cpu dapo_cpu rpg_cpu_urkl1e-4)
for ahead in 0 4 1; do
    for method in "${methods[@]}"; do
        if [[ $ahead == 0 ]]; then
            train "$method-sync" "$method" "$@"
            continue
        fi
        for pi_old in behavior decoupled recomputed; do
            train "$method-async$ahead-$pi_old" "$method" schedule=async "pi_old=$pi_old" \
                "trainer.v1.colocate_async.num_warmup_batches=$ahead" "$@"
        done
    done
done
mkdir -p "$out"
"$rpg" plot "$runs" --out "$out" --title "Toy task, synchronous and asynchronous, by the choice of pi_old"
"$rpg" table "$runs" > "$out/table.md"
