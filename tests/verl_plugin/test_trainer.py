"""Our trainer over verl's, built from the toy run without Ray: what is left out, failed, filtered, skipped.

Both constructors and verl's replay buffers are real; `Verl` and `Queue` stand for what needs workers.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from real_worker import nested
from tensordict import NonTensorStack, TensorDict

from tests.builders.toy_run import composed

pytestmark = pytest.mark.slow  # importing verl's trainer takes ten seconds

REWARDS = {f"{prompt}_{session}_0": torch.tensor([0.0, reward]) for prompt, rewards in
           {"a": (1, 1, 1), "b": (0, 0, 0), "c": (1, 0, 0), "d": (0, 1, 0), "e": (1, 1, 0), "f": (0, 0, 1)}.items()
           for session, reward in enumerate(rewards)}  # fmt: skip


class Queue:
    """TransferQueue as a dictionary: groups and their responses, and the fields that were put."""

    def __init__(self):
        self.rows: dict[str, dict] = {}
        self.fields: Any = None
        self.written: list[Any] = []

    def finish(self, prompt: str, status: str = "finished") -> None:
        """Add a group of three responses at step 7."""
        self.rows[prompt] = {"is_prompt": True, "status": status, "global_steps": 7}
        self.rows |= {f"{prompt}_{session}_0": {"status": "success"} for session in range(3)}

    def kv_list(self):
        return {"train": dict(self.rows)}

    def kv_clear(self, *, keys, partition_id):
        for key in keys:
            del self.rows[key]

    def kv_batch_get(self, *, keys, **_):
        return self.fields if self.fields is not None else {"rm_scores": [REWARDS[key] for key in keys]}

    def kv_batch_put(self, *, fields, **_):
        self.written.append(fields)


@pytest.fixture
def queue(monkeypatch):
    import transfer_queue

    made = Queue()
    for name in ("kv_list", "kv_clear", "kv_batch_get", "kv_batch_put"):
        monkeypatch.setattr(transfer_queue, name, getattr(made, name))
    return made


@pytest.fixture
def build(queue, tmp_path, monkeypatch):
    """Return a function that makes our trainer at step 7, of 4 prompts with 3 responses, with these changes."""
    from verl.trainer.ppo.v1 import PPOTrainer, PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync

    from rpg.verl_plugin import replay_buffer
    from rpg.verl_plugin.trainer import RPGTrainer

    for ours, name in (("BatchByPrompt", "ReplayBuffer"), ("BatchByPromptAsync", "ReplayBufferAsync")):
        monkeypatch.setattr(f"verl.trainer.ppo.v1.trainer_base.{name}", getattr(replay_buffer, ours))
    verls = {
        "sync": PPOTrainerSync,
        "colocate_async": PPOTrainerColocateAsync,
        "separate_async": PPOTrainerSeparateAsync,
    }

    class Verl(PPOTrainer):
        """Steps of verl's trainer that need workers."""

        def _add_prompts_to_generate(self, num_prompts):
            self.asked.append(num_prompts)
            return num_prompts

        def _compute_metrics(self, batch, metrics):
            metrics |= {
                f"critic/{name}/{end}": end == "max" for name in ("score", "advantages") for end in ("max", "min")
            }

        def _validate(self):
            for keys in (["a_0_0", "b_0_0", "c_0_0"], ["e_0_0", "f_0_0", "g_0_0"]):
                self.replay_buffer.count(7, keys, "val", 4)
            return {"val-core/x/acc/mean@1": 0.5}

        def _compute_old_log_prob(self, batch, metrics):  # aggregates the entropy so
            return self.config.actor_rollout_ref.actor.loss_agg_mode

        def _compute_advantage(self, batch, metrics):
            return "verl's"

        def _update_actor(self, batch, metrics):
            metrics["actor/skipped_steps"] = 1.0

    def trainer(mode: str = "sync", **changes: Any) -> Any:
        separate = ["schedule=separate"] if mode == "separate_async" else []
        config = composed("method=dapo", *separate).copy()
        OmegaConf.set_struct(config, False)
        small = {"data.train_batch_size": 4, "actor_rollout_ref.rollout.n": 3, "rpg.left_out_limit": 0.5,
                 "rpg.poll_interval": 1e-3, "algorithm.filter_groups.max_num_gen_batches": 3,
                 "trainer.default_local_dir": str(tmp_path), "trainer.v1.trainer_mode": mode}  # fmt: skip
        for key, value in (small | {key.replace("__", "."): value for key, value in changes.items()}).items():
            OmegaConf.update(config, key, value)
        made = type("Trainer", (RPGTrainer, Verl, verls[mode]), {"asked": []})(config)
        made.global_steps = 7
        return made

    return trainer


def test_the_entropy_is_a_mean_over_tokens_whatever_the_loss_is(build):
    trainer = build(actor_rollout_ref__actor__loss_agg_mode="seq-mean-token-sum-norm")
    assert trainer._compute_old_log_prob(None, {}) == "token-mean"
    assert trainer.config.actor_rollout_ref.actor.loss_agg_mode == "seq-mean-token-sum-norm"


def test_groups_that_are_filtered_are_replaced_so_often(build, monkeypatch):
    trainer, limits = build(), []  # a refill is no stall
    monkeypatch.setattr("rpg.verl_plugin.watchdog.arm", lambda *given: limits.append(given))
    for trainer.global_steps in (7, 8):
        for _ in range(4):
            trainer.replay_buffer.refill_fn(2)
    with pytest.raises(RuntimeError, match="max_num_gen_batches=3"):
        trainer.replay_buffer.refill_fn(1)
    assert trainer.asked == 8 * [2]
    assert len(limits) == 8
    build(algorithm__filter_groups__max_num_gen_batches=0).replay_buffer.refill_fn(100)


def test_rewards_of_filtered_groups_enter_the_mean_once(build, queue):
    """a and b have no variance and are dropped; verl looks at them more than once before it does."""
    trainer = build("colocate_async", algorithm__filter_groups__metric="reward")
    for prompt in "abcdef":
        queue.finish(prompt)
    assert trainer.replay_buffer.poll_interval == 1e-3  # rpg.poll_interval; verl's is 2 s
    assert trainer.replay_buffer.get_sampleable_count(7, "train") == 4
    batch, _ = trainer.replay_buffer.sample(global_steps=7, partition_id="train", batch_size=4)
    assert trainer.replay_buffer.filtered == {"a": 1.0, "b": 0.0}
    metrics = {"critic/score/mean": 5 / 12}
    trainer._compute_metrics(batch, metrics)
    assert metrics["critic/score_before_filtering/mean"] == pytest.approx((4 * 5 / 12 + 1 + 0) / 6)
    assert trainer.replay_buffer.filtered == {}


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_a_batch_is_in_the_order_of_prompts_and_not_of_ends(build, queue, mode):
    """verl's own order is that in which responses ended."""
    trainer = build(mode, algorithm__filter_groups__enable=False)
    for prompt in "dcab":
        queue.finish(prompt)
    ends = sorted((key for key, tag in queue.rows.items() if "is_prompt" not in tag), key=lambda key: key[::-1])
    queue.rows |= {key: queue.rows.pop(key) for key in reversed(ends)}
    batch, _ = trainer.replay_buffer.sample(global_steps=7, partition_id="train", batch_size=4)
    assert batch.keys == [f"{prompt}_{session}_0" for prompt in "dcab" for session in range(3)]
    assert len(batch.tags) == 12


def test_padding_is_no_group_and_surplus_groups_are(build):
    trainer = build()
    trainer.replay_buffer.filtered = {"x": 1.0}
    keys, tags = ["a_0_0", "a_1_0", "b_0_0", "pad_0_0"], [{}, {}, {}, {"is_padding": True}]
    batch = SimpleNamespace(keys=keys, tags=tags, partition_id="train")
    metrics = {"critic/score/mean": 0.5, "training/filter_groups/discarded_surplus_samples": 1}
    trainer._compute_metrics(batch, metrics)
    assert metrics["critic/score_before_filtering/mean"] == pytest.approx((3 * 0.5 + 1.0) / 4)
    metrics = {"critic/score/mean": 0.5}
    build(algorithm__filter_groups__enable=False)._compute_metrics(batch, metrics)
    assert "critic/score_before_filtering/mean" not in metrics


def test_a_validation_says_how_many_responses_its_accuracy_counts_as_wrong(build):
    trainer = build(actor_rollout_ref__rollout__val_kwargs__n=1)
    for _ in range(2):
        assert trainer._validate() == {"val-core/x/acc/mean@1": 0.5, "validation/left_out_responses": 2}


def test_an_asynchronous_trainer_makes_failed_groups_anew_up_to_a_limit(build, queue):
    trainer = build("colocate_async", algorithm__filter_groups__enable=False)
    for prompt, status in zip("abcdef", ["finished", "failure", "failure", *["finished"] * 3], strict=True):
        queue.finish(prompt, status)
    batch, metrics = trainer.replay_buffer.sample(global_steps=7, partition_id="train", batch_size=4)
    assert sorted({key[0] for key in batch.keys}) == ["a", "d", "e", "f"]
    assert trainer.asked == [2]
    assert metrics["training/rollout_failure/evicted_samples"] == 2
    assert set(trainer.replay_buffer.counts.values()) == {0}
    queue.finish("g", "failure")
    with pytest.raises(RuntimeError, match="left_out_limit"):
        trainer.replay_buffer.sample(global_steps=7, partition_id="train", batch_size=4)


def test_what_is_missing_is_counted(build):
    """Of a batch in parts the sum: schedule=separate trains on one after the other."""
    trainer = build("separate_async", data__train_batch_size=64)
    count = trainer.replay_buffer.count
    whole = [f"{prompt}_{session}_0" for prompt in "abcd" for session in range(3)]
    lacking = [key for key in whole if not key.startswith("b") and key not in ("c_1_0", "c_2_0")]
    # nothing; two parts of one response; group b and two of c; two responses
    for keys in (whole, [*whole, "a_0_1"], lacking, whole[:-2]):
        count(7, keys, "train", 4)
        trainer._update_actor(None, {})
    names = ("training/left_out_responses", "training/groups_of_one", "actor/skipped_steps")
    for expected in ((7, 2, 4), (0, 0, 0)):
        metrics = {"critic/score/mean": 0.5}
        trainer._compute_metrics(SimpleNamespace(keys=whole, tags=[{}] * 12), metrics)
        assert tuple(metrics[name] for name in names) == expected
    for keys, partition in ((whole[:3], "train"), ([], "val")):
        with pytest.raises(RuntimeError, match="left_out_limit"):
            count(7, keys, partition, 4)


@pytest.mark.parametrize(("loss", "scope", "mode", "put"), [
    ("rpg_urkl", "response", "fixed", True),
    ("rpg_urkl", "token", "fixed", False),
    ("rpg_ufkl", "response", "fixed", False),
    ("rpg_urkl", "response", "old", False),
])  # fmt: skip
def test_the_baseline_of_the_later_kl_terms_is_a_field_of_the_batch(build, queue, loss, scope, mode, put):
    """Two groups of two responses, of 2, 3, 1 and 2 tokens."""
    from rpg.objectives import later_kl_baseline

    old = [[-1.0, -2.0], [-0.5, -1.0, -0.25], [-2.0], [-1.5, -1.0]]
    fields = {
        "uid": NonTensorStack("a", "b", "a", "b"),
        "response_mask": nested(torch.ones(len(row), dtype=torch.int64) for row in old),
        "old_log_probs": nested(map(torch.tensor, old)),
        "ref_log_prob": nested(map(torch.tensor, ([-1.5, -1.0], [-0.5, -2.0, -1.25], [-1.0], [-1.0, -2.0]))),
    }
    queue.fields = TensorDict(fields, batch_size=4)
    policy_loss = "actor_rollout_ref__actor__policy_loss"
    trainer = build(
        **{f"{policy_loss}__loss_mode": loss, f"{policy_loss}__kl_scope": scope, "rpg__reference__mode": mode}
    )
    assert trainer._compute_advantage(SimpleNamespace(keys=[1, 2, 3, 4], partition_id="train"), {}) == "verl's"
    assert len(queue.written) == put
    if put:
        padded = [torch.nested.to_padded_tensor(fields[name], 0) for name in ("old_log_probs", "ref_log_prob")]
        mask = torch.nested.to_padded_tensor(fields["response_mask"], 0)
        expected = later_kl_baseline(*padded, mask, ["a", "b", "a", "b"])
        assert expected.abs().sum() > 0
        for row, given in enumerate(queue.written[0]["kl_baseline"].unbind()):
            torch.testing.assert_close(given, expected[row, : len(old[row])])


@pytest.mark.parametrize(("mode", "counted"), [("sync", 2), ("separate_async", 8)])
def test_warm_up_is_counted_in_batches(build, mode, counted):
    """verl's scheduler counts the parts into which separate_async cuts a batch; it scales the horizon itself."""
    assert build(mode, data__train_batch_size=64).config.actor_rollout_ref.actor.optim.lr_warmup_steps == counted
