"""The trainer's counters and our replay buffer on verl's, without Ray: what is left out, failed, filtered, skipped."""

import json
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from rpg.files.atomic import STATUS

pytestmark = pytest.mark.slow  # importing verl's trainer takes ten seconds


@pytest.fixture
def trainer(monkeypatch, tmp_path):
    """Return our trainer at step 7 with 4 prompts of 3 answers, and the calls of verl's part."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rpg.verl_plugin.trainer import RPGTrainer

    asked = []
    monkeypatch.setattr(PPOTrainer, "_add_prompts_to_generate", lambda self, number: asked.append(number) or number)
    made = object.__new__(type("Trainer", (RPGTrainer, PPOTrainerSync), {}))
    made.config = OmegaConf.create(
        {
            "rpg": {"left_out_limit": 0.5, "poll_interval": 0},
            "trainer": {"default_local_dir": str(tmp_path)},
            "data": {"train_batch_size": 4},
            "algorithm": {"filter_groups": {"max_num_gen_batches": 3, "enable": True}},
            "actor_rollout_ref": {"rollout": {"n": 3, "val_kwargs": {"n": 1}}},
        }
    )
    made.global_steps, made._asked, made.asked = 7, (0, 0), asked
    made._failed, made.filtered, made._of_step, made._shown = set(), {}, {}, {}
    made._left_out_of_validation = 0
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


REWARDS = {f"{prompt}_{session}_0": torch.tensor([0.0, reward]) for prompt, rewards in
           {"a": (1, 1, 1), "b": (0, 0, 0), "c": (1, 0, 0), "d": (0, 1, 0), "e": (1, 1, 0), "f": (0, 0, 1)}.items()
           for session, reward in enumerate(rewards)}  # fmt: skip


@pytest.fixture
def metric(request):
    """Return algorithm.filter_groups.metric; a test asks for another by its parameters."""
    return getattr(request, "param", None)


@pytest.fixture
def buffer(trainer, metric, monkeypatch):
    """Return our version of verl's asynchronous replay buffer, and its TransferQueue, a dict."""
    from verl.trainer.ppo.v1 import replay_buffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    queue: dict[str, dict] = {}
    monkeypatch.setattr(replay_buffer.tq, "kv_list", lambda: {"train": dict(queue)})
    monkeypatch.setattr(replay_buffer.tq, "kv_clear", lambda *, keys, partition_id: [queue.pop(key) for key in keys])
    monkeypatch.setattr(
        replay_buffer.tq,
        "kv_batch_get",
        lambda *, keys, **_: {"rm_scores": [REWARDS[k] for k in keys], "extra_fields": [{} for _ in keys]},
    )
    made = replay_buffer.ReplayBufferAsync(
        "colocate_async", {}, 8, "drop", {}, refill_fn=trainer._add_prompts_to_generate, filter_groups_metric=metric
    )
    monkeypatch.setattr(PPOTrainer, "_build_replay_buffer", lambda self: made)
    trainer.trainer_mode, made.queue = "colocate_async", queue
    return trainer._build_replay_buffer()


def put(queue, prompt, status, step=7):
    queue[prompt] = {"is_prompt": True, "status": status, "global_steps": step}
    queue |= {f"{prompt}_{session}_0": {"status": "success"} for session in range(3)}


def test_the_buffer_is_verls_and_ours(buffer):
    from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

    from rpg.verl_plugin.trainer import CountingBuffer

    assert isinstance(buffer, CountingBuffer)
    assert isinstance(buffer, ReplayBufferAsync)
    assert buffer.poll_interval == 0  # rpg.poll_interval; verl's is 2 s


@pytest.mark.parametrize("metric", ["reward"], indirect=True)
def test_rewards_of_filtered_groups_enter_the_mean_once(trainer, buffer, monkeypatch, tmp_path):
    """a and b have no variance and are dropped; verl looks at them more than once before it does."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    for prompt in "abcdef":
        put(buffer.queue, prompt, "finished")
    assert buffer.get_sampleable_count(7, "train") == 4
    batch, _ = buffer.sample(global_steps=7, partition_id="train", batch_size=4)
    assert trainer.filtered == {"a": 1.0, "b": 0.0}
    status = {"phase": "update", "groups": 0, "wanted": 4, "dropped": 2}
    assert json.loads((tmp_path / STATUS).read_text()) == status
    monkeypatch.setattr(PPOTrainer, "_compute_metrics", lambda self, batch, metrics: None)
    metrics = {"critic/score/mean": 5 / 12}
    trainer._compute_metrics(batch, metrics)
    assert metrics["critic/score_before_filtering/mean"] == pytest.approx((4 * 5 / 12 + 1 + 0) / 6)
    assert trainer.filtered == {}


def test_padding_is_no_group_and_surplus_groups_are(trainer, monkeypatch):
    import transfer_queue as tq
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    monkeypatch.setattr(PPOTrainer, "_compute_metrics", lambda self, batch, metrics: None)
    trainer.filtered = {"x": 1.0}
    keys, tags = ["a_0_0", "a_1_0", "b_0_0", "pad_0_0"], [{}, {}, {}, {"is_padding": True}]
    batch = KVBatchMeta(keys=keys, tags=tags, partition_id="train")
    monkeypatch.setattr(tq, "kv_batch_get", lambda *, keys, **_: {"extra_fields": [{} for _ in keys]})
    metrics = {"critic/score/mean": 0.5, "training/filter_groups/discarded_surplus_samples": 1}
    trainer._compute_metrics(batch, metrics)
    assert metrics["critic/score_before_filtering/mean"] == pytest.approx((3 * 0.5 + 1.0) / 4)
    trainer.config.algorithm.filter_groups.enable = False
    metrics = {"critic/score/mean": 0.5}
    trainer._compute_metrics(batch, metrics)
    assert metrics == {"critic/score/mean": 0.5}


def test_parts_of_the_reward_are_means_over_the_responses_that_have_them():
    from rpg.verl_plugin.trainer import parts_of_rewards

    infos = [{"score": 1.0, "format": 1.0, "pred": "3"}, {"score": 0.0, "format": 0.5, "late": True}, {}]
    found = parts_of_rewards([{"reward_extra_info": info} for info in infos])
    assert found == {"train-aux/format/mean": 0.75, "train-aux/late/mean": 1.0}


def test_a_validation_says_how_many_responses_its_accuracy_counts_as_wrong(trainer, monkeypatch):
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    def validate(self):
        for keys in (["a_0_0", "b_0_0", "c_0_0"], ["e_0_0", "f_0_0", "g_0_0"]):
            self.count(keys, "val", 4)
        return {"val-core/x/acc/mean@1": 0.5}

    monkeypatch.setattr(PPOTrainer, "_validate", validate)
    for _ in range(2):
        assert trainer._validate() == {"val-core/x/acc/mean@1": 0.5, "validation/left_out_responses": 2}


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
    assert trainer.count(whole, "train", 4) == {"training/left_out_responses": 0, "training/groups_of_one": 0}
    assert trainer.count([*whole, "a_0_1"], "train", 4)["training/left_out_responses"] == 0  # two parts of one
    lacking = [key for key in whole if not key.startswith("b") and key not in ("c_1_0", "c_2_0")]
    assert trainer.count(lacking, "train", 4) == {"training/left_out_responses": 5, "training/groups_of_one": 1}
    for keys, partition in ((whole[:3], "train"), ([], "val")):
        with pytest.raises(RuntimeError, match="left_out_limit"):
            trainer.count(keys, partition, 4)


@pytest.mark.parametrize(("loss", "scope", "mode", "put"), [
    ("rpg_urkl", "response", "fixed", True),
    ("rpg_urkl", "token", "fixed", False),
    ("rpg_ufkl", "response", "fixed", False),
    ("rpg_urkl", "response", "old", False),
])  # fmt: skip
def test_the_baseline_of_the_later_kl_terms_is_a_field_of_the_batch(trainer, monkeypatch, loss, scope, mode, put):
    """Two groups of two responses, of 2, 3, 1 and 2 tokens."""
    import transfer_queue as tq
    from tensordict import NonTensorStack, TensorDict
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    from rpg.objectives import later_kl_baseline
    from rpg.verl_plugin.reference_settings import ReferenceSettings

    def nested(rows):
        return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)

    old = [[-1.0, -2.0], [-0.5, -1.0, -0.25], [-2.0], [-1.5, -1.0]]
    ref = [[-1.5, -1.0], [-0.5, -2.0, -1.25], [-1.0], [-1.0, -2.0]]
    fields = {
        "uid": NonTensorStack("a", "b", "a", "b"),
        "response_mask": nested([[1] * len(row) for row in old]),
        "old_log_probs": nested(old),
        "ref_log_prob": nested(ref),
    }
    written = []
    monkeypatch.setattr(tq, "kv_batch_get", lambda **_: TensorDict(fields, batch_size=4))
    monkeypatch.setattr(tq, "kv_batch_put", lambda *, fields, **_: written.append(fields))
    monkeypatch.setattr(PPOTrainer, "_compute_advantage", lambda self, batch, metrics: "verl's")
    trainer.reference_settings = ReferenceSettings(mode)
    trainer.config.actor_rollout_ref.actor = {"policy_loss": {"loss_mode": loss, "kl_scope": scope}}
    batch = SimpleNamespace(keys=[1, 2, 3, 4], partition_id="train")
    assert trainer._compute_advantage(batch, {}) == "verl's"
    assert len(written) == put
    if put:
        padded = [torch.nested.to_padded_tensor(fields[name], 0) for name in ("old_log_probs", "ref_log_prob")]
        mask = torch.nested.to_padded_tensor(fields["response_mask"], 0)
        expected = later_kl_baseline(*padded, mask, ["a", "b", "a", "b"])
        assert expected.abs().sum() > 0
        for row, given in enumerate(written[0]["kl_baseline"].unbind()):
            torch.testing.assert_close(given, expected[row, : len(old[row])])
