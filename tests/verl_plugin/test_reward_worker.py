"""Reward functions that raise, hang or do not return a number, under verl's reward manager; the counts."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

pytestmark = pytest.mark.full  # importing verl takes ten seconds

FUNCTION = """
import asyncio, time

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if ground_truth == "raise":
        raise KeyError("no such problem")
    if ground_truth == "hang":
        time.sleep(5)
    return {"nan": float("nan"), "inf": {"score": 1.0, "acc": float("inf")}, "none": None, "text": "good",
            "list": [1.0]}.get(ground_truth, {"score": 0.5, "acc": 1.0, "pred": "3"})
"""
REASONS = {
    "raise": "KeyError: 'no such problem'",
    "hang": "the reward took more than 0.5 s (rpg.reward_limit)",
    "nan": "ValueError: the reward function returned score=nan",
    "inf": "ValueError: the reward function returned acc=inf",
    "none": "TypeError",
    "text": "ValueError",
    "list": "TypeError",
}


def data(truth: str):
    import numpy as np
    import torch
    from verl import DataProto

    row = {
        "data_source": "toy_sum",
        "reward_model": {"ground_truth": truth},
        "extra_info": {"index": 0},
        "raw_prompt": [{"role": "user", "content": "What is 1 + 2?"}],
        "uid": "some-uid",
        "global_steps": 7,
    }
    return DataProto.from_dict(
        tensors={"responses": torch.tensor([[1, 2]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)},
        non_tensors={key: np.array([value, None], dtype=object)[:1] for key, value in row.items()},
    )


def test_left_out(tmp_path):
    from verl.trainer.ppo.reward import load_reward_manager

    from rpg.files.atomic import LEFT_OUT
    from rpg.verl_plugin.patches.reward_worker import RewardLoopWorker

    (tmp_path / "function.py").write_text(FUNCTION)
    config = OmegaConf.create(
        {
            "rpg": {"reward_limit": 0.5},
            "trainer": {"default_local_dir": str(tmp_path / "run")},
            "reward": {
                "custom_reward_function": {"path": str(tmp_path / "function.py"), "name": "compute_score"},
                "reward_manager": {"source": "register", "name": "naive"},
                "reward_model": {"enable": False},
            },
        }
    )

    async def score() -> None:
        worker = RewardLoopWorker.__new__(RewardLoopWorker)  # verl's __init__ loads a tokenizer
        worker.config = config
        worker.reward_manager = load_reward_manager(config, SimpleNamespace(decode=lambda *_, **__: "Answer: 3"))
        assert (await worker.compute_score(data("right")))["reward_score"] == 0.5
        for truth, reason in REASONS.items():
            with pytest.raises(RuntimeError) as raised:
                await worker.compute_score(data(truth))
            assert str(raised.value).startswith(f"some-uid of toy_sum: {reason}")

    asyncio.run(score())
    notes = [json.loads(line) for line in (tmp_path / "run" / LEFT_OUT).read_text().splitlines()]
    assert len(notes) == len(REASONS)
    assert {(note["step"], note["uid"], note["problem"]) for note in notes} == {(7, "some-uid", "What is 1 + 2?")}


@pytest.fixture
def trainer(monkeypatch):
    """Return our trainer at step 7 with 4 prompts of 3 answers, and the calls of verl's part."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rpg.verl_plugin.trainer import RPGTrainer

    asked = []
    monkeypatch.setattr(PPOTrainer, "_add_prompts_to_generate", lambda self, number: asked.append(number) or number)
    made = object.__new__(type("Trainer", (RPGTrainer, PPOTrainerSync), {}))
    made.config = OmegaConf.create(
        {
            "rpg": {"left_out_limit": 0.5},
            "trainer": {"default_local_dir": "runs/x"},
            "data": {"train_batch_size": 4},
            "algorithm": {"filter_groups": {"max_num_gen_batches": 3}},
            "actor_rollout_ref": {"rollout": {"n": 3, "val_kwargs": {"n": 1}}},
        }
    )
    made.global_steps, made._asked, made.asked = 7, (0, 0), asked
    made._failed, made._filtered, made._of_step = set(), {}, {}
    made.trainer_mode = "sync"
    return made


def test_groups_that_are_filtered_are_replaced_so_often(trainer):
    for trainer.global_steps in (7, 8):
        for _ in range(4):
            trainer._refill(2)
    with pytest.raises(RuntimeError, match="max_num_gen_batches=3"):
        trainer._refill(1)
    assert trainer.asked == 8 * [2]
    trainer.config.algorithm.filter_groups.max_num_gen_batches = 0
    trainer._refill(100)


@pytest.fixture
def buffer(trainer, monkeypatch):
    """Return our version of verl's asynchronous replay buffer, and its TransferQueue, a dict."""
    from verl.trainer.ppo.v1 import replay_buffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    queue: dict[str, dict] = {}
    monkeypatch.setattr(replay_buffer.tq, "kv_list", lambda: {"train": dict(queue)})
    monkeypatch.setattr(replay_buffer.tq, "kv_clear", lambda *, keys, partition_id: [queue.pop(key) for key in keys])
    made = replay_buffer.ReplayBufferAsync(
        "colocate_async", {}, 8, "drop", {}, poll_interval=0, refill_fn=trainer._add_prompts_to_generate
    )
    monkeypatch.setattr(PPOTrainer, "_build_replay_buffer", lambda self: made)
    trainer.trainer_mode, made.queue = "colocate_async", queue
    return trainer._build_replay_buffer()


def put(queue, prompt, status, step=7):
    queue[prompt] = {"is_prompt": True, "status": status, "global_steps": step}
    queue |= {f"{prompt}_{session}_0": {"status": "success"} for session in range(3)}


def test_an_asynchronous_trainer_makes_failed_groups_anew_up_to_a_limit(trainer, buffer):
    for prompt, status in {"a": "finished", "b": "failure", "c": "failure", "d": "finished", "e": "finished"}.items():
        put(buffer.queue, prompt, status)
    put(buffer.queue, "f", "finished")
    batch, metrics = buffer.sample(global_steps=7, partition_id="train", batch_size=4)
    assert sorted({key[0] for key in batch.keys}) == ["a", "d", "e", "f"]
    assert trainer.asked == [2]
    assert metrics["training/rollout_failure/evicted_samples"] == 2
    assert trainer._of_step == {"training/left_out_responses": 0, "training/groups_of_one": 0}
    put(buffer.queue, "g", "failure")
    with pytest.raises(RuntimeError, match="left_out_limit"):
        buffer.sample(global_steps=7, partition_id="train", batch_size=4)


def test_of_a_batch_in_parts_counts_are_summed_and_the_reference_is_as_it_stands(trainer, monkeypatch):
    """verl averages the parts' metrics under separate_async."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    ages = iter([2, 4])

    def update(self, batch, metrics):
        metrics.update({"actor/reference/age": next(ages), "actor/skipped_steps": 1.0})
        return batch

    def step(self, metrics, timing_raw):
        for _ in range(2):
            self._add({"training/left_out_responses": 3})
            self._update_actor(None, {})
        metrics["reference/age"] = 3.0
        return "batch"

    monkeypatch.setattr(PPOTrainer, "_update_actor", update)
    monkeypatch.setattr(PPOTrainer, "step", step)
    metrics = {}
    assert trainer.step(metrics, {}) == "batch"
    assert metrics == {"reference/age": 4, "actor/skipped_steps": 2.0, "training/left_out_responses": 6}


def test_what_is_missing_is_counted(trainer):
    whole = [f"{prompt}_{session}_0" for prompt in "abcd" for session in range(3)]
    assert trainer._count(whole, "train", 4) == {"training/left_out_responses": 0, "training/groups_of_one": 0}
    assert trainer._count([*whole, "a_0_1"], "train", 4)["training/left_out_responses"] == 0  # two parts of one
    lacking = [key for key in whole if not key.startswith("b") and key not in ("c_1_0", "c_2_0")]
    assert trainer._count(lacking, "train", 4) == {"training/left_out_responses": 5, "training/groups_of_one": 1}
    for keys, partition in ((whole[:3], "train"), ([], "val")):
        with pytest.raises(RuntimeError, match="left_out_limit"):
            trainer._count(keys, partition, 4)
