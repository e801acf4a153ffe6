"""LossSpec: rejected values."""

import pytest
import yaml

from rpg.names import RHO_BOUND
from rpg.objectives import LossSpec
from rpg.registry.scripts import RECIPE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kl_coef", -1e-4),
        ("kl_coef", float("nan")),
        ("kl_coef", "1e-4"),
        ("clip_low", -0.1),
        ("clip_high", float("inf")),
        ("clip_c", 1.0),
        ("z_old", 0.0),
        ("clip_scope", "everything"),
        ("clip_branch", "sign"),
        ("kl_scope", "sequence"),
        ("rho_bound", 0.0),
        ("rho_bound", float("inf")),
    ],
)
def test_bad_values_are_refused_by_field_name(field, value):
    with pytest.raises(ValueError, match=field):
        LossSpec.parse("rpg_urkl", **{field: value})


def test_the_kl_of_responses_has_no_z_old():
    with pytest.raises(ValueError, match=r"kl_scope='response' with z_old=1.7: .*; set z_old=1 or kl_scope='token'"):
        LossSpec.parse("rpg_urkl", kl_scope="response", z_old=1.7)


def test_the_plugin_and_a_run_bound_rho_alike():
    assert yaml.safe_load((RECIPE / "config/rpg_trainer.yaml").read_text())["rpg"]["rho_bound"] == RHO_BOUND
