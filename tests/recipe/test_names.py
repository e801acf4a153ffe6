"""The grammar of script names: what it accepts and refuses, and that a false configuration is found and told."""

import pytest
from omegaconf import OmegaConf

from recipe.rpg.names import (
    DIVERGENCES,
    LEFT_OUT,
    LONGEST,
    Run,
    UnknownName,
    custom_name,
    differences,
    parse,
    settings,
)
from rpg.launching.start import main
from rpg.objectives.spec import DIVERGENCE_NAMES, LOSS_NAMES, LossSpec

MATH, INSTRUCT, QWEN3 = "Qwen/Qwen2.5-Math-7B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-4B"

READ = {
    "dapo_7b": Run("dapo", "7b", context=2048, model=MATH),
    "dapo_7binstruct": Run("dapo", "7b", context=2048, model=INSTRUCT),
    "grpo_7b_7binstruct": Run("grpo", "7b", beta=1e-3, clip=(0.2, 0.2), context=2048, model=INSTRUCT),
    "rfppb_7b_1e-4_schedulefree": Run("rfppb", "7b", beta=1e-4, optim="schedulefree", context=2048, model=MATH),
    "rpg_7b_schedulefree": Run(
        "rpg", "7b", "differentiable", "ufkl", 0.0, optim="schedulefree", context=2048, model=MATH
    ),
    "rpg_7b_rkl1e-4_rf": Run("rpg", "7b", "rf", "rkl", 1e-4, context=2048, model=MATH),
    "rpg_7b_rkl1e-4_rf_clip_ppo": Run("rpg", "7b", "rf_clip_ppo", "rkl", 1e-4, (0.1, 0.1), context=2048, model=MATH),
    "rpg_4b_urkl1e-3_rf_clip_ppo_0.2_0.28_8k": Run(
        "rpg", "4b", "rf_clip_ppo", "urkl", 1e-3, (0.2, 0.28), context=8192, model=QWEN3
    ),
    "rpg_4b_ufkl1e-4_noiterref_4k": Run(
        "rpg", "4b", "differentiable", "ufkl", 1e-4, reference="fixed", context=4096, model=QWEN3
    ),
    "grpo_cpu_async": Run("grpo", "cpu", beta=1e-3, clip=(0.2, 0.2), schedule="async"),
    "rpg_4b_urkl1e-4_rf_schedulefree_4k_async": Run(
        "rpg", "4b", "rf", "urkl", 1e-4, optim="schedulefree", context=4096, model=QWEN3, schedule="async"
    ),
    "rpg_cpu_rkl1e-4_rf_schedulefree_smollm2": Run(
        "rpg", "cpu", "rf", "rkl", 1e-4, optim="schedulefree", model="HuggingFaceTB/SmolLM2-135M-Instruct"
    ),
    "grpo_corrected_cpu": Run("grpo_corrected", "cpu", None, "urkl", 1e-3, (0.2, 0.2), "fixed"),
}

REFUSED = {
    "": "expected a method",
    "sft_7b": "at 'sft': expected a method",
    "rpg": "at the end: expected a size",
    "rpg_13b": "expected a size: 7b, 4b, cpu",
    "rfpp_7b": "at the end: expected beta",
    "rfpp_7b_1e-5": "expected beta: 1e-4, 1e-3",
    "dapo_7b_urkl1e-4": "at 'urkl1e-4'",  # DAPO has no KL
    "rpg_7b_urkl": "at 'urkl'",
    "rpg_7b_js1e-4": "at 'js1e-4'",
    "rpg_7b_urkl1e-4_clip_ppo_0.2_0.28": "at 'clip'",  # only REINFORCE losses have RPG-Style Clip
    "rpg_7b_urkl1e-4_rf_clip_ppo_0.3_0.3": "at '0.3'",
    "rpg_7b_urkl1e-4_7binstruct_schedulefree": "at 'schedulefree'",  # C before D
    "rpg_7b_urkl1e-4_4k": "at '4k'",
    "rpg_4b_urkl1e-4": "at the end: expected a context: 2k, 4k, 8k",
    "rpg_7b_noiterref": "at 'noiterref'",
    "rpg_7b_smollm2": "at 'smollm2'",
    "dapo_cpu_smollm2_schedulefree": "at 'schedulefree'",
    "rpg_7b_urkl1e-4 ": "at 'urkl1e-4 '",
    "run_rpg_7b": "at 'run'",
    "dapo_7b_async_7binstruct": "at '7binstruct'",  # the schedule last
    "dapo_4b_async_4k": "at 'async'",
}


@pytest.mark.parametrize("name", READ)
def test_what_a_name_says(name):
    assert parse(name) == READ[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_false_name_is_refused_where_it_is_false(name):
    with pytest.raises(UnknownName) as refusal:
        parse(name)
    assert REFUSED[name] in str(refusal.value)


def test_learning_rates_of_release_and_paper():
    assert parse("rpg_7b_rkl1e-4_rf").lr == 5e-7
    assert parse("rpg_7b_rkl1e-4").lr == 1e-6
    assert parse("rpg_4b_urkl1e-4_rf_clip_ppo_0.2_0.28_4k").lr == 1e-6
    assert parse("rpg_cpu").lr is None


def test_pi_old_of_an_asynchronous_run():
    """What docs/off-policy.md recommends: the weight where there is a clip, the policy that sampled where none is."""
    assert parse("rpg_cpu_urkl1e-4_rf_async").pi_old == "behavior"
    for clipped in ("dapo_cpu_async", "rpg_cpu_urkl1e-4_async", "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_async"):
        assert parse(clipped).pi_old == "decoupled"
    assert parse("rpg_cpu_urkl1e-4_rf").pi_old == "recomputed"


def test_the_vocabulary_is_that_of_the_losses():
    assert DIVERGENCES == DIVERGENCE_NAMES  # written twice, so that a dry run need not import torch
    for d in DIVERGENCES:
        for rest in ("", "_rf", "_rf_clip_ppo"):
            assert (
                settings(parse(f"rpg_7b_{d}1e-4{rest}"))["actor_rollout_ref.actor.policy_loss.loss_mode"] in LOSS_NAMES
            )


def test_what_is_left_out_is_what_the_losses_take():
    spec = LossSpec.parse("rpg_urkl")
    assert {key: getattr(spec, key.rpartition(".")[2]) for key in LEFT_OUT} == LEFT_OUT


def as_said(name):
    config = OmegaConf.create()
    for key, value in settings(parse(name)).items():
        OmegaConf.update(config, key, value, force_add=True)
    OmegaConf.update(config, "actor_rollout_ref.model.path", parse(name).model, force_add=True)
    return config


@pytest.mark.parametrize("name", READ)
def test_every_setting_that_a_name_says_is_compared(name, monkeypatch):
    monkeypatch.delenv("MODEL_PATH", raising=False)
    assert differences(parse(name), as_said(name)) == {}
    for key, said in settings(parse(name)).items():
        config = as_said(name)
        other = not said if isinstance(said, bool) else "other" if isinstance(said, str | None) else said + 1
        OmegaConf.update(config, key, other)
        assert differences(parse(name), config) == {key: (said, other)}
        OmegaConf.update(config, key, None)
        assert list(differences(parse(name), config)) == ([] if said is None else [key])


@pytest.mark.parametrize(
    ("path", "variable", "is_other"),
    [
        ("/models/Qwen2.5-Math-7B", None, False),
        ("Qwen/Qwen2.5-7B-Instruct", None, True),
        ("/cache/0123abc", "/cache/0123abc", False),
    ],
)
def test_a_model_is_known_by_its_last_part(path, variable, is_other, monkeypatch):
    monkeypatch.delenv("MODEL_PATH", raising=False)
    if variable:
        monkeypatch.setenv("MODEL_PATH", variable)
    config = as_said("dapo_7b")
    config.actor_rollout_ref.model.path = path
    assert bool(differences(parse("dapo_7b"), config)) is is_other


def test_a_custom_name_says_what_was_changed():
    found = {"a.b.lr": (1e-6, 5e-7), "x.loss_mode": ("rpg_urkl", "vanilla")}
    assert custom_name("rpg_7b_urkl1e-4", found) == "rpg_7b_urkl1e-4-custom-lr=5e-07,loss_mode=vanilla"
    other = {"a.b.lr": (1e-6, 5e-8), "x.loss_mode": ("rpg_urkl", "vanilla")}
    assert custom_name("rpg_7b_urkl1e-4", found) != custom_name("rpg_7b_urkl1e-4", other)
    many = {f"k{i}": (0, i) for i in range(40)}
    assert len(custom_name("rpg_7b_urkl1e-4", many)) < LONGEST
    assert custom_name("rpg_7b_urkl1e-4", many) != custom_name("rpg_7b_urkl1e-4", {**many, "k0": (0, 9)})


@pytest.fixture
def dry_run(monkeypatch, capsys):
    """Exit code, printed configuration and stderr of run_dapo_7b.sh as a dry run in this process."""

    def run(*overrides):
        monkeypatch.setenv("DRY_RUN", "1")
        code = main(["rpg.script=dapo_7b", "method=dapo", *overrides])
        out, err = capsys.readouterr()
        return code, OmegaConf.create(out), err

    return run


def test_an_override_against_the_name_is_told_and_renames_the_run(dry_run):
    code, printed, err = dry_run("clip=0.1_0.1", "trainer.total_training_steps=5")
    assert code == 0
    assert "clip_ratio_low = 0.1 (the name says 0.2)" in err
    assert printed.trainer.experiment_name == "dapo_7b-custom-clip_ratio_low=0.1,clip_ratio_high=0.1"
    assert printed.trainer.default_local_dir.endswith(printed.trainer.experiment_name)


def test_another_judge_is_told_and_renames_the_run(dry_run):
    for override in ("judge=verified", "reward.custom_reward_function.reward_kwargs.judge=verified"):
        code, printed, err = dry_run(override)
        assert code == 0
        assert "reward.custom_reward_function.reward_kwargs.judge = verified (the name says release)" in err
        assert printed.trainer.experiment_name == "dapo_7b-custom-judge=verified"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("clip_ratio_c=3.0", 10.0),
        ("loss_agg_mode=seq-mean-token-mean", "token-mean"),
        ("entropy_coeff=0.01", 0),
        ("ppo_epochs=2", 1),
    ],
)
def test_another_loss_is_told_and_renames_the_run(dry_run, override, said):
    _, printed, err = dry_run(f"actor_rollout_ref.actor.{override}")
    key, _, value = override.partition("=")
    assert f"actor_rollout_ref.actor.{key} = {value} (the name says {said})" in err
    assert printed.trainer.experiment_name == f"dapo_7b-custom-{override}"


@pytest.mark.parametrize(
    ("override", "renames"),
    [
        ("clip_branch=advantage", True),
        ("clip_scope=none", True),
        ("z_old=2.0", True),
        ("clip_branch=psi", False),
        ("clip_scope=reward", False),
        ("z_old=1.0", False),
    ],
)
def test_the_shape_of_an_rpg_loss_is_in_its_name(monkeypatch, capsys, override, renames):
    monkeypatch.setenv("DRY_RUN", "1")
    script, actor = "rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28", "actor_rollout_ref.actor"
    assert main([f"rpg.script={script}", f"{actor}.optim.lr=5e-7", f"+{actor}.policy_loss.{override}"]) == 0
    out, err = capsys.readouterr()
    name = f"{script}-custom-{override}" if renames else script
    assert OmegaConf.create(out).trainer.experiment_name == name
    assert bool(err) is renames


def test_another_schedule_is_told_and_renames_the_run(dry_run):
    _, printed, err = dry_run("schedule=async", "pi_old=decoupled")
    assert "trainer.v1.trainer_mode = colocate_async (the name says sync)" in err
    assert printed.trainer.experiment_name == "dapo_7b-custom-trainer_mode=colocate_async,rollout_is=token"


def test_a_name_that_the_user_gives_stays(dry_run):
    _, printed, err = dry_run("clip=0.1_0.1", "trainer.experiment_name=mine")
    assert printed.trainer.experiment_name == "mine"
    assert "the name says 0.2" in err


def test_harmless_overrides_are_not(dry_run):
    harmless = ["trainer.total_training_steps=5", "trainer.logger=[console]", "data.train_files=/x.parquet"]
    code, printed, err = dry_run(*harmless, "rpg.time_limit=60")
    assert (code, err) == (0, "")
    assert printed.trainer.experiment_name == "dapo_7b"


def test_an_unknown_key_is_refused(dry_run):
    code, printed, err = dry_run("trainer.total_steps=5")
    assert code == 2
    assert "total_steps" in err
    assert printed == {}
