"""What a person reads about an override that Hydra does not take: exit code 2, one line, a form that works."""

import subprocess

import pytest

from rpg.config.compose import compose, compose_config
from rpg.diagnostics import Refused
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
        ("trainer.nnode=2", "trainer.nnodes"),
        ("metod=rpg", "method"),
        ("actor_rollout_ref.actor.policy_loss.loss_mod=x", "actor_rollout_ref.actor.policy_loss.loss_mode"),
    ],
)
def test_a_misspelt_key_is_told_the_nearest(override, meant, capsys):
    assert refused(override, capsys).endswith(f"did you mean {meant}?")


def test_a_key_without_its_sections_is_told_with_them(capsys):
    assert "actor_rollout_ref.actor.optim.lr" in refused("lr=1", capsys)


def test_a_key_like_no_other(capsys):
    assert "no such setting or group" in refused("foo.bar=1", capsys)


@pytest.mark.parametrize(
    ("override", "entry"), [("clip=0.3", "0.2_0.28"), ("context=8", "8k"), ("method=true", "rpg_rf")]
)
def test_a_group_that_is_no_text(override, entry, capsys):
    assert entry in refused(override, capsys)


def test_a_word_without_a_value(capsys):
    assert refused("progress", capsys).endswith("write KEY=VALUE")


def test_a_context_with_a_data_set_that_has_its_own_length_is_refused():
    chosen = ["trainer.experiment_name=t", "profile=cpu", "model=toy", "optim=toy", "dataset=toy", "context=4k"]
    with pytest.raises(Refused, match=r"^context=4k: is not read: the data set's .*max_response_length=32 counts"):
        compose(None, chosen)
    assert compose(None, [*chosen, "data.max_response_length=40"])[0]["data.max_response_length"] == 40
