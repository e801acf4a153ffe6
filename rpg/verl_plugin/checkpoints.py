"""verl's trainer, whose checkpoints get a manifest when all of them is written, and go when there is a newer one."""

import os
import re
import shutil
import time
from pathlib import Path

import transfer_queue as tq
from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from rpg.files import manifest
from rpg.files.integrity import steps
from rpg.verl_plugin.patches import weights_only

RETENTION = ("max_actor_ckpt_to_keep", "remove_previous_ckpt_in_save")  # the second is the first with 1, deprecated
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
        self._bytes = 0  # of the last checkpoint, here or of the run that is resumed; 0: there is none
        super().__init__(config)

    def _load_checkpoint(self) -> None:
        with weights_only.enforced():  # data.pt; the actor's files are read where it lives
            super()._load_checkpoint()
        if self.trainer_mode != "sync":
            drop_trained()
        resumed = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if (resumed / manifest.NAME).is_file():
            self._bytes = sum(entry.bytes for entry in manifest.read(resumed).values())
        if keep := self._keep:
            self._written = earlier(Path(self.config.trainer.default_local_dir), self.global_steps, keep)

    @property
    def _keep(self) -> int | None:
        """How many checkpoints are to be there; None or 0: all."""
        config = self.config.trainer
        return 1 if config.get("remove_previous_ckpt_in_save", False) else config.get("max_actor_ckpt_to_keep", None)

    def _save_checkpoint(self) -> None:
        config, keep = self.config.trainer, self._keep
        if self.config.actor_rollout_ref.actor.get("checkpoint", {}).get("async_save", False):
            super()._save_checkpoint()  # Megatron's: still being written when this returns, and without a tracker
            return
        directory = Path(config.default_local_dir) / f"global_step_{self.global_steps}"
        remove_oldest(self._written, max(keep - 1, 1) if keep else None)
        if short := lacking(directory, self._bytes):
            raise OSError(f"{directory} is not begun: {short}. What is saved stays; the same command goes on from it")
        manifest.begin(directory)
        asked = {key: config[key] for key in RETENTION if key in config}
        config.update(dict.fromkeys(asked))  # verl shall keep all
        try:
            super()._save_checkpoint()
        except Exception as error:  # torch's names neither file nor disk: "unexpected pos 13312 vs 13206"
            free = shutil.disk_usage(directory.parent).free
            if free >= FULL:
                raise
            full = f"{directory} was not finished: {directory.parent} has {free / 1e6:.3g} MB free"
            raise OSError(f"{full}. With room again the same command goes on from the one before") from error
        finally:
            config.update(asked)
        began = time.monotonic()
        entries = manifest.write(directory)
        size = sum(entry.bytes for entry in entries.values())
        took = time.monotonic() - began
        print(f"{directory}: complete, {len(entries)} files, {size / 1e9:.3g} GB, manifest in {took:.1f} s")
        ranks = {match[1] for name in entries if (match := RANK.search(name))}
        if len(ranks) < self.actor_rollout_wg.world_size:
            print(
                f"warning: {directory}: the manifest covers {len(ranks)} of {self.actor_rollout_wg.world_size} ranks, "
                f"those that {os.uname().nodename} sees; put trainer.default_local_dir on a file system of all nodes"
            )
        self._written.append(directory)
        remove_oldest(self._written, keep)
        self._bytes = size
        room = size * max(0, len(self._written) - max(keep - 1, 1)) if keep else 0  # which the next save makes first
        if short := lacking(directory, size - room):
            print(f"warning: the next checkpoint will not fit: {short}")


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


def lacking(directory: Path, size: int) -> str:
    """What is missing on the disk for a checkpoint of size bytes beside this one, a sentence; "" where nothing is."""
    place = next(place for place in directory.parents if place.is_dir())
    free = shutil.disk_usage(place).free
    if free >= size:
        return ""
    return f"{place} has {free / 1e9:.3g} GB free, a checkpoint takes {size / 1e9:.3g} GB"


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
