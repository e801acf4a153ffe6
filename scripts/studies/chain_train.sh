# Sourced by stability.sh, factors.sh, dynamics.sh, kl_scope.sh and clip_or_kl.sh: `train` makes one run on the study's
# task, with batches of 32 prompts and 8 responses each, 16 optimizer steps per batch, and 8 answers to each of 128
# problems at the end. A finished run is kept, an interrupted one resumes. Needs $rate (learning rate), $runs
# (directory) and $seed; $steps: batches.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
steps=12
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
python=${rpg%rpg}python
cd "$root"
[[ -f runs/chain/model/model.safetensors ]] || "$python" -m rpg.toy.chain runs/chain

train() { # NAME SCRIPT OVERRIDES...
    local run=$root/$runs/$1-seed$seed script=recipe/rpg/cpu/run_$2.sh
    shift 2
    [[ -d $run/global_step_$steps ]] && return
    bash "$script" dataset=chain model=chain actor_rollout_ref.rollout.n=8 data.train_batch_size=32 \
        actor_rollout_ref.actor.ppo_mini_batch_size=2 "actor_rollout_ref.actor.optim.lr=$rate" \
        actor_rollout_ref.rollout.val_kwargs.n=8 data.val_max_samples=128 trainer.val_before_train=false \
        "trainer.test_freq=$steps" "trainer.save_freq=$steps" "trainer.total_training_steps=$steps" \
        "data.seed=$seed" "trainer.default_local_dir=$run" "$@"
}
