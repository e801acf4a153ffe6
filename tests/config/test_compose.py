"""Overrides that are refused, and the name of a run."""

import pytest

from rpg.config.compose import compose, parse, run_name, split
from rpg.diagnostics import Refused
from rpg.registry import scripts
from rpg.run import start

A = "actor_rollout_ref.actor"
CORRECTION, FILTER = "algorithm.rollout_correction", "algorithm.filter_groups"
LR = f"{A}.optim.lr=2e-5"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
NAME = "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28"


def made(*typed: str, name: str = NAME):
    return compose(name, [*scripts.find(name).overrides, *typed])[0]


@pytest.mark.parametrize(
    ("typed", "key", "said"),
    [
        (["rpg.kl_coef=1e-3", f"{A}.policy_loss.kl_coef=0.1"], f"{A}.policy_loss.kl_coef", "set rpg.kl_coef"),
        ([f"{A}.policy_loss.loss_mode=rpg_urkl"], f"{A}.policy_loss.loss_mode", "choose another method="),
        (["method=dapo", "algorithm.adv_estimator=rpg"], "algorithm.adv_estimator", "method=dapo makes it grpo"),
        ([f"{CORRECTION}.bypass_mode=true"], f"{CORRECTION}.bypass_mode", "pi_old=unset makes it false"),
        (["schedule=async", "trainer.v1.trainer_mode=sync"], "trainer.v1.trainer_mode", "makes it colocate_async"),
        (["method=dapo", "rpg.kl_coef=0.1"], "rpg.kl_coef", "has no effect with method=dapo"),
        (["rpg.data_dir=/mine"], "rpg.data_dir", "has no effect with dataset=toy"),
        (["rpg.pi_old=behavior"], "rpg.pi_old", "choose another pi_old="),
        (["rpg.method=dapo"], "rpg.method", "method=rpg_rf_clip_ppo makes it"),
        ([f"{A}.policy_loss={{loss_mode:gspo}}"], f"{A}.policy_loss.loss_mode", "choose another method="),
        (["pi_old=decoupled_sequence", f"{CORRECTION}.bypass_mode=true"], f"{CORRECTION}.bypass_mode", "false"),
        (["critic.optim.lr=5e-5"], "critic.optim.lr", "no run has a critic"),
        (["method=grpo", f"{OVERLONG}.len=8"], f"{OVERLONG}.len", "is not read with reward.reward_kwargs"),
        (["context=4k"], "context", "the data set sets data.max_response_length=32"),
    ],
)
def test_an_override_that_contradicts_a_decision_is_refused(typed, key, said):
    with pytest.raises(Refused) as refusal:
        made(*typed)
    assert [found.key for found in refusal.value.diagnostics] == [key]
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "typed",
    [
        ["rpg.kl_coef=0.1", f"{A}.policy_loss.kl_coef=0.1", f"{A}.policy_loss.loss_mode=rpg_rf_urkl_clip_ppo"],
        [f"{A}.clip_ratio_low=0.1", "clip=0.2_0.2", "pi_old=decoupled", f"{CORRECTION}.rollout_is_threshold=5"],
        ["method=null", "algorithm.adv_estimator=grpo", f"{A}.policy_loss.loss_mode=gspo"],
        ["context=4k", "data.max_response_length=40"],
        ["method=grpo", f"{FILTER}.enable=false", f"{FILTER}.metric=score"],  # as verl's scripts switch it off
        ["method=dapo", f"{FILTER}.metric=score", "transfer_queue.backend.SimpleStorage.num_data_storage_units=2"],
    ],
)
def test_what_agrees_or_is_not_decided_passes(typed):
    made(*typed)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("~rpg.kl_coeff", "did you mean rpg.kl_coef?"),
        ("metod=rpg", "did you mean method?"),
        ("actor.optim.lr=1", "did you mean actor_rollout_ref.actor.optim.lr?"),
        ("lr=1", "actor_rollout_ref.actor.optim.lr"),
        (f"{A}.policy_loss.clip_scope=regularized", "write +actor_"),
        ("clip=0.3", "0.2_0.28"),
    ],
)
def test_an_override_that_hydra_does_not_take_is_told_in_one_line(override, said, capsys):
    """The nearest key, the entries of a group, or a form that works."""
    assert start.start(None, ["trainer.experiment_name=t", override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {override}: ")
    assert said in line


def test_one_beta_reaches_grpo_too():
    assert made("rpg.kl_coef=0.01", name="grpo_cpu")[f"{A}.kl_loss_coef"] == 0.01


@pytest.mark.parametrize(("typed", "low", "beta"), [
    ("grpo", 0.2, 1e-3), ("gspo", 3e-4, None), ("dapo", 0.2, None), ("rpg_rf_clip_hard", 0.1, 1e-4),
])  # fmt: skip
def test_a_typed_method_brings_its_own_clip_and_beta(typed, low, beta):
    """Another clip of RPG-REINFORCE keeps the script's."""
    run = made(f"method={typed}", name="rpg_7b_fkl1e-4_rf_clip_ppo")
    assert run[f"{A}.clip_ratio_low"] == low
    assert beta in (None, run["rpg.kl_coef"])


@pytest.mark.parametrize(("typed", "lr"), [([], 5e-7), (["adapter=lora"], 1e-5), (["adapter=lora", LR], 2e-5)])
def test_a_typed_adapter_brings_its_own_rate(typed, lr):
    assert made(*typed, name="rpg_7b_urkl1e-4_rf")[f"{A}.optim.lr"] == lr


A_RUN = [parse(text) for text in ("trainer.save_freq=1", "rpg.console=full")]  # which a resume may change


@pytest.mark.parametrize(
    ("typed", "suffix"),
    [
        ([], ""),
        ([f"{A}.optim.lr=1e-3"], ",lr=0.001"),
        (["rpg.kl_coef=0.1", f"{A}.optim.lr=2", f"{A}.optim.lr=3"], ",kl_coef=0.1,lr=3"),
        ([f"{A}.strategy=fsdp2", "actor_rollout_ref.ref.strategy=fsdp"], ",actor.strategy=fsdp2,ref.strategy=fsdp"),
        (["model=/models/my model"], ",model=my-model"),
        (["data.train_files=[/a/x.parquet,/b/y.parquet]"], ",train_files=x.parquet-y.parquet"),
        (["rpg.reward=/a/mine.py", f"+{A}.policy_loss.clip_branch=advantage"], ",clip_branch=advantage,reward=mine.py"),
    ],
)
def test_a_run_is_named_after_its_script_and_what_was_typed(typed, suffix):
    _, typed = split(NAME, typed)
    assert run_name(NAME, [*A_RUN, *map(parse, typed)]) == NAME + suffix


def test_a_scripts_own_overrides_act_also_if_only_its_name_is_given():
    own = list(scripts.find("dapo_7b").overrides)
    assert split("dapo_7b", ["data.seed=3"]) == (own, ["data.seed=3"])


def test_a_users_script_contradicts_no_decision_of_its_own(tmp_path):
    """What was typed may choose another method, to which the script's own knobs need not belong."""
    script = tmp_path / "mine.sh"
    script.write_text(scripts.paths()["dapo_7b"].read_text().replace("method=dapo", "method=dapo rpg.kl_coef=1e-3"))
    own = list(scripts.read(script).overrides)
    with pytest.raises(Refused):
        compose(str(script), own)
    compose(str(script), [*own, "method=rpg_rf_clip_ppo"])


def test_a_long_name_is_shortened_and_differs():
    names = [run_name(NAME, [parse(f"data.{'x' * 20}{n}={m}") for n in range(9)]) for m in (1, 2)]
    assert len({*names}) == 2
    assert all(len(name) <= 120 and name.startswith(NAME) for name in names)


def test_without_a_script():
    run = compose(None, ["profile=cpu", "model=/models/mine", "dataset=toy", "method=grpo"])[0]
    assert run.name == "dataset=toy,method=grpo,model=mine,profile=cpu"
    assert run["trainer.default_local_dir"].endswith(f"/{run.name}")
    assert (run["actor_rollout_ref.model.path"], run.rpg.method) == ("/models/mine", "grpo")
    assert made("trainer.experiment_name=mine", "data.seed=3").name == "mine"
