"""Names of launch scripts: invalid names, and contradicting configurations."""

import copy

import pytest
from omegaconf import OmegaConf

from rpg.config.compose import LONGEST, compose_config, contradictions, custom_name
from rpg.config.keys import KEYS, ROWS
from rpg.diagnostics import ABSENT
from rpg.objectives import LOSS_NAMES, LossSpec
from rpg.registry.labels import LABELS
from rpg.registry.scripts import NOT_SAID_ON_A_CPU, UnknownName, overrides, parse
from rpg.run.start import start

NO_NAMES = [
    "",
    "rfpp_7b",  # no beta
    "dapo_7b_urkl1e-4",  # DAPO has no KL
    "rpg_7b_urkl1e-4_clip_ppo_0.2_0.28",  # only REINFORCE losses have RPG-Style Clip
    "rpg_7b_urkl1e-4_7binstruct_schedulefree",  # the other way round
    "rpg_4b_urkl1e-4",  # no context
    "rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref",  # of 4b and cpu only
    "grpo_corrected_4b_noiterref_4k",  # its reference is fixed anyway
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name(name):
    with pytest.raises(UnknownName):
        parse(name)


def test_every_loss_has_a_method():
    """The loss does not depend on size, optimizer, context or schedule."""
    losses = {row.resolved_settings(divergence=divergence)["loss"] for row, divergence in LABELS.values()}
    assert losses == {*LOSS_NAMES, "vanilla", "gspo", "cispo", "dppo_tv", "sapo"}


def test_defaults_of_absent_keys_are_the_losses():
    spec = LossSpec.parse("rpg_urkl")
    fields = {"clip_scope": "clip_scope", "clip_branch": "clip_branch", "loss_kl_scope": "kl_scope", "z_old": "z_old"}
    assert {name: ROWS[name].named for name in fields} == {name: getattr(spec, of) for name, of in fields.items()}


@pytest.mark.parametrize("text", ["dapo_7b", "grpo_7b_async", "rpg_7b_rkl1e-4_rf_clip_ppo_async", "rpg_cpu_ufkl1e-4"])
def test_every_setting_that_a_name_stands_for_is_compared(text):
    name = parse(text)
    own = compose_config([f"rpg.script={text}", *overrides(name)])
    assert contradictions(name, own) == {}
    left_out = {*NOT_SAID_ON_A_CPU} if name.size == "cpu" else set()
    left_out |= set() if name.schedule == "async" else {"ahead_colocated"}
    for row in ROWS.values():
        if row.named is ABSENT or row.name in left_out:
            continue
        value = OmegaConf.select(own, row.key, default=row.named)
        config = copy.deepcopy(own)
        other = not value if isinstance(value, bool) else "other" if isinstance(value, str | None) else value + 1
        OmegaConf.update(config, row.key, other, force_add=True)
        (expected, actual) = contradictions(name, config)[row.key]
        assert actual == other
        assert expected == value or row.name == "model"
    OmegaConf.update(own, KEYS["model"], f"/models/{own.actor_rollout_ref.model.path.rpartition('/')[2]}")
    assert contradictions(name, own) == {}  # a model is known by the last part of its path


def test_a_custom_name_says_what_was_changed():
    changed = {"a.b.lr": (1e-6, 5e-7), "x.loss_mode": ("rpg_urkl", "vanilla")}
    assert custom_name("rpg_7b_urkl1e-4", changed) == "rpg_7b_urkl1e-4-custom-lr=5e-07,loss_mode=vanilla"
    many = {f"k{i}": (0, i) for i in range(40)}
    assert len(custom_name("rpg_7b_urkl1e-4", many)) < LONGEST
    assert custom_name("rpg_7b_urkl1e-4", many) != custom_name("rpg_7b_urkl1e-4", {**many, "k0": (0, 9)})


JUDGE = "reward.custom_reward_function.reward_kwargs.judge"
SHAPE = "+actor_rollout_ref.actor.policy_loss.clip_branch"
DAPO = ["rpg.script=dapo_7b", "method=dapo"]
RPG = ["rpg.script=rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28", "actor_rollout_ref.actor.optim.lr=5e-7"]


@pytest.mark.parametrize(
    ("script", "given", "changed"),
    [
        (DAPO, ["clip=0.1_0.1", "trainer.total_training_steps=5"], "clip_ratio_low=0.1,clip_ratio_high=0.1"),
        (DAPO, [f"{JUDGE}=verified"], "judge=verified"),
        (DAPO, ["schedule=async", "pi_old=decoupled"], "trainer_mode=colocate_async,rollout_is=token"),
        (RPG, [f"{SHAPE}=advantage"], "clip_branch=advantage"),
        (RPG, [f"{SHAPE}=psi"], ""),
        (DAPO, ["trainer.total_training_steps=5", "data.train_files=/x.parquet", "rpg.time_limit=60"], ""),
    ],
)
def test_an_override_against_the_name_is_told_and_renames_the_run(monkeypatch, capsys, script, given, changed):
    monkeypatch.setenv("DRY_RUN", "1")
    assert start(None, [*script, *given]) == 0
    out, err = capsys.readouterr()
    trainer = OmegaConf.create(out).trainer
    name = script[0].removeprefix("rpg.script=")
    assert trainer.experiment_name == (f"{name}-custom-{changed}" if changed else name)
    assert trainer.default_local_dir.endswith(trainer.experiment_name)
    assert bool(err) is bool(changed)
    assert all(f".{setting.partition('=')[0]} = " in err for setting in changed.split(",") if changed)
