"""What a person reads about an override that Hydra does not take: exit code 2, one line, a form that works."""

import re
import subprocess
from pathlib import Path

import pytest

from rpg.config.compose import compose, compose_config
from rpg.config.verl_keys import KNOWN_AS
from rpg.diagnostics import BadSetting
from rpg.run import start


def refused(override: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert start.start(None, ["trainer.experiment_name=t", override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {override}: ")
    return line


@pytest.mark.parametrize("path", ["v=2/x.parquet", "a, b.parquet", "it's=1.parquet", 'a"$b=c.parquet', "a\\b=c"])
def test_the_form_that_is_shown_survives_a_shell(path, capsys):
    line = refused(f"data.train_files={path}", capsys)
    shown = line.partition("the shell leaves in place: ")[2]
    typed = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, text=True, check=True).stdout
    assert compose_config(["trainer.experiment_name=t", typed])[0].data.train_files == path


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("rpg.kl_coeff=1", "rpg.kl_coef"),
        ("~rpg.kl_coeff", "rpg.kl_coef"),
        ("kl_coeff=1", "rpg.kl_coef"),
        ("lr=1", "actor_rollout_ref.actor.optim.lr"),
        ("max_steps=1", "trainer.total_training_steps"),
        ("num_generations=8", "actor_rollout_ref.rollout.n"),
        ("beta=0", "rpg.kl_coef"),
        ("trainer.nnode=2", "trainer.nnodes"),
        ("metod=rpg", "method"),
        ("actor_rollout_ref.actor.policy_loss.loss_mod=x", "actor_rollout_ref.actor.policy_loss.loss_mode"),
    ],
)
def test_a_misspelt_key_is_told_the_nearest(override, meant, capsys):
    assert refused(override, capsys).endswith(f"did you mean {meant}?")


def test_a_key_like_no_other(capsys):
    assert "no such setting or group" in refused("foo.bar=1", capsys)


@pytest.mark.parametrize(
    ("override", "entry"), [("clip=0.3", "0.2_0.28"), ("context=8", "8k"), ("method=true", "rpg_rf")]
)
def test_a_group_that_is_no_text(override, entry, capsys):
    assert entry in refused(override, capsys)


def test_a_word_without_a_value(capsys):
    assert refused("progress", capsys).endswith("write KEY=VALUE")


@pytest.mark.parametrize(
    ("override", "fsdp"),
    [
        ("model_engine=megatron", "dp"),
        ("model_engine=veomni", "dp"),
        ("model_engine=no_such_engine", "dp"),
        ("actor@actor_rollout_ref.actor=megatron_actor", "dp_actor"),
        ("ref@actor_rollout_ref.ref=torchtitan_ref", "dp_ref"),
    ],
)
def test_another_engine_is_refused_by_name(override, fsdp, capsys):
    assert f"must be {fsdp}: " in refused(override, capsys)


@pytest.mark.parametrize("part", ["actor", "ref"])
def test_another_strategy_is_refused_by_name(part, capsys, monkeypatch):
    monkeypatch.setenv("DRY_RUN", "1")
    key = f"actor_rollout_ref.{part}.strategy"
    assert start.start(None, ["trainer.experiment_name=t", f"{key}=megatron"]) == 2
    assert f"{key}='megatron': must be 'fsdp2' or 'fsdp'" in capsys.readouterr().err


def test_the_page_for_those_who_come_from_trl_has_the_same_names():
    page = (Path(__file__).parents[2] / "docs/plain_verl.md").read_text(encoding="utf-8")
    rows = re.findall(r"`([\w.]+)` \(`(\w+)`\)", page.split("Unchanged keys of verl")[1])
    assert len(rows) >= 5
    for key, name in rows:
        assert KNOWN_AS[name].endswith(key.removeprefix("actor.").removeprefix("rollout."))


@pytest.mark.parametrize(
    "more", [["data.max_response_length=40"], ["dataset=toy"]], ids=["its own length", "the data set behind it"]
)
def test_a_context_behind_a_data_set_with_its_own_length_is_refused(more):
    chosen = ["trainer.experiment_name=t", "profile=cpu", "model=toy", "optim=toy", "dataset=toy", "context=4k"]
    with pytest.raises(BadSetting, match=r"^context=4k: is not read: the data set's .*max_response_length=32 counts"):
        compose(None, chosen)
    assert compose(None, [*chosen, *more])[0]["data.max_response_length"] in (32, 40)
