"""A mixin for verl's trainers that writes a manifest per complete checkpoint and removes old checkpoints."""

import errno
import os
import shutil
from pathlib import Path

import transfer_queue as tq
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from rpg.files import manifest
from rpg.files.integrity import steps

FULL = 1_000_000  # bytes; a disk with less free space is full


class CompleteCheckpoints(PPOTrainer):
    """Mixed in before one of verl's trainers: a save that ends with the manifest.

    verl's own callback (trainer.checkpoint_callback_class) runs after a save, but not at its beginning, so that an
    interrupted save would look like a checkpoint of plain verl. verl also removes the oldest checkpoint before a save
    is complete: with trainer.max_actor_ckpt_to_keep=1 a kill could leave no complete checkpoint. Checkpoints are
    therefore removed here, after the save; worker.py tells verl to keep all. At most as many as verl keeps are on the
    disk, at least one besides the one being written. Checkpoints of earlier starts count, because otherwise each
    restart would fill the disk further.
    """

    _written: list[Path]

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.trainer_mode != "sync":
            drop_trained()
        keep = self.config.trainer.max_actor_ckpt_to_keep or 0  # 0 and None: all
        self._written = earlier(Path(self.config.trainer.default_local_dir), self.global_steps, keep)

    def _save_checkpoint(self) -> None:
        keep = self.config.trainer.max_actor_ckpt_to_keep or 0
        directory = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        remove_oldest(self._written, max(keep - 1, 1) if keep else 0)
        manifest.begin(directory)
        try:
            super()._save_checkpoint()
        except Exception as error:  # torch's message names neither file nor disk: "unexpected pos 13312 vs 13206"
            if shutil.disk_usage(directory.parent).free >= FULL:
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory)) from error
        manifest.write(directory)
        self._written.append(directory)
        remove_oldest(self._written, keep)


def drop_trained() -> None:
    """Remove the stored responses on which the checkpoint's step was trained: no prompt waits for them.

    verl removes them when the step ends, after the save. After a restart nothing would remove them, and each restart
    would leave another batch in memory and in every checkpoint.
    """
    tags = (tq.kv_list("train") or {}).get("train", {})
    prompts = {key for key, tag in tags.items() if tag.get("is_prompt", False)}
    trained = [key for key in tags if key.split("_")[0] not in prompts]
    if trained:
        tq.kv_clear(keys=trained, partition_id="train")


def earlier(run: Path, step: int, keep: int) -> list[Path]:
    """Return the newest `keep` checkpoints up to the step from which the run resumes, oldest first.

    Empty if the run resumes from another directory or starts over. Checkpoints newer than `step` are incomplete and
    will be overwritten. Older ones than the newest `keep` were left by starts with a higher limit, and stay.
    """
    if not (run / f"global_step_{step}").is_dir():
        return []
    return [directory for number, directory in reversed(steps(run)) if number <= step][-keep:]


def remove_oldest(written: list[Path], keep: int) -> None:
    """Keep the last `keep` of the directories (0: all) on the disk and in the list; remove the others."""
    while keep and len(written) > keep:
        shutil.rmtree(written.pop(0), ignore_errors=True)  # as in verl: failure to remove one does not stop the run
