"""What a person reads about an override that Hydra does not take: exit code 2, one line, a form that works."""

import pytest

from rpg.config.compose import compose
from rpg.diagnostics import Refused
from rpg.run import start


def refused(override: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert start.start(None, ["trainer.experiment_name=t", override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {override}: ")
    return line


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("~rpg.kl_coeff", "did you mean rpg.kl_coef?"),
        ("trainer.nnode=2", "did you mean trainer.nnodes?"),
        ("metod=rpg", "did you mean method?"),
        ("lr=1", "actor_rollout_ref.actor.optim.lr"),
        ("foo.bar=1", "no such setting or group"),
        ("clip=0.3", "0.2_0.28"),
        ("method=true", "rpg_rf"),
        ("progress", "write KEY=VALUE"),
    ],
)
def test_a_misspelt_key_is_told_the_nearest_and_a_group_its_entries(override, said, capsys):
    assert said in refused(override, capsys)


def test_a_context_with_a_data_set_that_has_its_own_length_is_refused():
    chosen = ["trainer.experiment_name=t", "profile=cpu", "model=toy", "optim=toy", "dataset=toy", "context=4k"]
    with pytest.raises(Refused, match=r"^context=4k: is not read: the data set's .*max_response_length=32 counts"):
        compose(None, chosen)
    assert compose(None, [*chosen, "data.max_response_length=40"])[0]["data.max_response_length"] == 40
