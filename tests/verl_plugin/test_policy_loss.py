"""The policy-loss adapter against verl's vanilla loss, agg_loss, registry and ppo_loss."""

import pytest
import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

from rpg.objectives import LOSS_NAMES, LossSpec
from rpg.verl_plugin import policy_loss as adapter
from rpg.verl_plugin.config import RPGPolicyLossConfig

AGG_MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
DUAL_CLIPPED = [
    name for name, parts in LOSS_NAMES.items() if parts[1:] in (("differentiable", "dual"), ("reinforce", "ppo"))
]


def actor_config(kl_coef=0.0, policy_loss=None, **settings):
    """Return verl's dataclass with the paper's clip bounds."""
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=0.2,
        clip_ratio_high=0.28,
        policy_loss=policy_loss or RPGPolicyLossConfig(kl_coef=kl_coef),
        **{"clip_ratio_c": 2.0, "use_torch_compile": False, **settings},
    )


def batch(rows=8, tokens=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    old = -torch.rand(rows, tokens, generator=generator) * 4 - 1.5
    lengths = torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    lengths[-1] = 0  # verl pads batches with rows without any token
    return {
        "old_log_prob": old,
        "log_prob": old + torch.randn(rows, tokens, generator=generator) * 0.6,
        "advantages": torch.randn(rows, tokens, generator=generator),
        "response_mask": torch.arange(tokens).expand(rows, tokens) < lengths,
    }


def call(name, data, config, mode="token-mean", **extra):
    """Return scalar, gradient by log_prob and metrics of a loss in verl's registry."""
    data = {**data, "log_prob": data["log_prob"].clone().requires_grad_()}
    function = core_algos.get_policy_loss_fn(name)
    loss, metrics = function(**{"rollout_is_weights": None, **data, **extra}, loss_agg_mode=mode, config=config)
    assert loss.shape == ()
    loss.backward()
    return loss.item(), data["log_prob"].grad, metrics


@pytest.mark.parametrize("mode", AGG_MODES)
@pytest.mark.parametrize("name", DUAL_CLIPPED)
def test_beta_zero_is_verls_dual_clip(name, mode):
    config = actor_config(kl_coef=0.0)
    for seed in range(3):
        data = batch(seed=seed)
        vanilla_loss, vanilla, vanilla_metrics = call("vanilla", data, config, mode)
        loss, ours, metrics = call(name, data, config, mode)
        # float32: a product of three numbers and one division, in another order
        torch.testing.assert_close(ours, vanilla, rtol=1e-6, atol=1e-9)
        if LOSS_NAMES[name][1] == "differentiable":
            assert loss == pytest.approx(vanilla_loss, rel=1e-5, abs=1e-6)
        for key, value in vanilla_metrics.items():
            assert metrics[key] == pytest.approx(value, rel=1e-5, abs=1e-6), key
        assert (vanilla[data["response_mask"] != 0] == 0).any()
        for bound in ("low", "high", "c"):  # the batch does reach every one
            assert metrics[f"actor/rpg_clipfrac_{bound}"] > 0, bound


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("mode", AGG_MODES)
def test_gradients_do_not_depend_on_ranks_or_micro_batches(mode, parts, ranks):
    """One global batch: every rank holds its share in `parts` micro-batches, gradients are summed over
    micro-batches and averaged over ranks, as FSDP does. It must equal the undivided batch."""
    data, name = batch(), "rpg_rf_urkl_clip_ppo"
    _, whole, _ = call(name, data, actor_config(kl_coef=0.1), mode)
    gradients = []
    tokens, sequences = int(data["response_mask"].sum()), int(data["response_mask"].any(-1).sum())
    for piece in range(ranks * parts):
        config = actor_config(kl_coef=0.1)
        config.global_batch_info.update(
            dp_size=ranks, batch_num_tokens=tokens, global_batch_size=sequences, loss_scale_factor=None
        )
        size = 8 // (ranks * parts)
        rows = slice(piece * size, (piece + 1) * size)
        micro = {key: tensor[rows] for key, tensor in data.items()}
        _, gradient, _ = call(name, micro, config, mode)
        gradients.append(gradient / ranks)
    # the same products, divided by another power-of-two count at another moment: float32 rounding
    torch.testing.assert_close(torch.cat(gradients), whole, rtol=1e-5, atol=1e-9)


def test_a_batch_without_tokens_gives_zero():
    data = batch()
    data["response_mask"] = torch.zeros_like(data["response_mask"])
    loss, gradient, metrics = call("rpg_rf_fkl_clip_ppo", data, actor_config(kl_coef=0.1))
    assert loss == 0.0
    assert (gradient == 0).all()
    assert all(value == value and abs(value) <= 1 for value in metrics.values())


def test_numbers_come_from_verls_keys_and_ours():
    ours = {"kl_coef": 0.5, "clip_scope": "none", "clip_branch": "advantage", "z_old": 2.0, "kl_scope": "token",
            "rho_bound": 3.0}  # fmt: skip
    config = actor_config(policy_loss=RPGPolicyLossConfig(**ours), clip_ratio_c=10.0)
    spec = adapter.spec_from_actor_config("rpg_ufkl", config)
    assert spec == LossSpec.parse("rpg_ufkl", clip_low=0.2, clip_high=0.28, clip_c=10.0, **ours)


@pytest.mark.parametrize(
    ("config", "beta", "warnings"),
    [
        ({"kl_coef": 0.01, "use_kl_loss": True, "kl_loss_coef": 0.0}, 0.01, 0),
        ({"policy_loss": PolicyLossConfig(loss_mode="rpg_urkl")}, 1e-4, 0),
        ({"kl_coef": 0.01, "use_kl_loss": True}, 0.01, 1),
    ],
)
def test_the_numbers_in_effect_and_a_kl_that_counts_twice_are_told_once(config, beta, warnings, capsys):
    adapter.tell.cache_clear()
    for _ in range(2):
        call("rpg_urkl", batch(), actor_config(**config))
    told = capsys.readouterr().err
    assert told.count(f"rpg: loss rpg_urkl, beta {beta:g}, clip [0.8, 1.28], c 2, pi_ref = pi_old") == 1
    assert told.count("WARNING") == warnings == told.count("\n") - 1
