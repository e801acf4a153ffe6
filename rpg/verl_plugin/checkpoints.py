"""verl's trainer, whose checkpoints get a manifest when all of them is written, and go when there is a newer one."""

import errno
import os
import re
import shutil
from pathlib import Path

import transfer_queue as tq
from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from rpg.files import manifest
from rpg.files.integrity import steps
from rpg.verl_plugin.patches import weights_only

FULL = 1_000_000  # bytes; a disk with less is full
RANK = re.compile(r"_rank_(\d+)\.pt$")


class CompleteCheckpoints(PPOTrainer):
    """Before one of verl's trainers in the order of its classes: a save that ends with the manifest.

    verl's own callback for this (trainer.checkpoint_callback_class) is called when all is written, its tracker
    included. It is not told when a save begins, so that nothing would tell one that was killed from one of plain verl;
    and verl removes the oldest checkpoint before that: with trainer.max_actor_ckpt_to_keep=1 a kill at the wrong
    moment would leave no complete one. So checkpoints are removed here, whole, and as many at the same time as verl
    has (one at least beside the one being written). Those of earlier starts count: a run that is started again and
    again would fill the disk by as many each time.
    """

    def __init__(self, config: DictConfig):
        """config: the whole configuration of verl's trainer."""
        self._written: list[Path] = []
        super().__init__(config)

    def _load_checkpoint(self) -> None:
        with weights_only.enforced():  # data.pt; the actor's files are read where it lives
            super()._load_checkpoint()
        if self.trainer_mode != "sync":
            drop_trained()
        if keep := self.config.trainer.max_actor_ckpt_to_keep:
            self._written = earlier(Path(self.config.trainer.default_local_dir), self.global_steps, keep)

    def _save_checkpoint(self) -> None:
        config = self.config.trainer
        keep = config.max_actor_ckpt_to_keep  # None: all
        directory = Path(config.default_local_dir) / f"global_step_{self.global_steps}"
        remove_oldest(self._written, max(keep - 1, 1) if keep else None)
        manifest.begin(directory)
        config.max_actor_ckpt_to_keep = None  # of verl, which shall keep all
        try:
            super()._save_checkpoint()
        except Exception as error:  # torch's names neither file nor disk: "unexpected pos 13312 vs 13206"
            if shutil.disk_usage(directory.parent).free >= FULL:
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory)) from error
        finally:
            config.max_actor_ckpt_to_keep = keep
        ranks = {match[1] for name in manifest.write(directory) if (match := RANK.search(name))}
        if len(ranks) < self.actor_rollout_wg.world_size:
            print(
                f"warning: {directory}: the manifest covers {len(ranks)} of {self.actor_rollout_wg.world_size} ranks, "
                f"those that {os.uname().nodename} sees; put trainer.default_local_dir on a file system of all nodes"
            )
        self._written.append(directory)
        remove_oldest(self._written, keep)


def drop_trained() -> None:
    """Remove the responses without a prompt that waits for them: those that the checkpoint's own step was trained on.

    verl removes them when the step ends, which is after it has saved; after a restart nothing would, and each one more
    would leave a batch in memory and in every checkpoint.
    """
    held = (tq.kv_list("train") or {}).get("train", {})
    prompts = {key for key, tag in held.items() if tag.get("is_prompt", False)}
    trained = [key for key in held if key.split("_")[0] not in prompts]
    if trained:
        tq.kv_clear(keys=trained, partition_id="train")


def earlier(run: Path, step: int, keep: int) -> list[Path]:
    """The checkpoint of this step, from which a run goes on, with those before it: the newest keep, oldest first.

    None where it goes on from elsewhere or begins anew. What is newer than step was passed over as not whole and is
    written again. What more than keep there is was left by starts that were to keep more, and stays.
    """
    if not (run / f"global_step_{step}").is_dir():
        return []
    return [directory for number, directory in reversed(steps(run)) if number <= step][-keep:]


def remove_oldest(written: list[Path], keep: int | None) -> None:
    """Leave the last of the directories, as many as there are to be (None or 0: all), on the disk and in the list."""
    while keep and len(written) > keep:
        shutil.rmtree(written.pop(0), ignore_errors=True)  # as verl: one that cannot go is no reason to stop
