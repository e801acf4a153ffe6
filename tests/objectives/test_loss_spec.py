"""LossSpec: the table of names, and rejected values."""

import pytest
import yaml

from rpg.names import DIVERGENCES, RHO_BOUND
from rpg.objectives import LOSS_NAMES, LossSpec
from rpg.registry.scripts import RECIPE


def test_the_names_are_those_of_the_design():
    assert {"fkl", "rkl", "ufkl", "urkl"} <= {*DIVERGENCES}
    assert {*LOSS_NAMES} == {f"rpg_{d}" for d in DIVERGENCES} | {
        f"rpg_rf_{d}{clip}" for d in DIVERGENCES for clip in ("", "_clip_dual", "_clip_hard", "_clip_ppo")
    }
    for name in LOSS_NAMES:
        spec = LossSpec.parse(name, kl_coef=0.5, clip_low=0.1, clip_high=0.2, clip_c=3.0)
        assert spec.name == name
        assert (spec.kl_coef, spec.clip_low, spec.clip_high, spec.clip_c) == (0.5, 0.1, 0.2, 3.0)


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


@pytest.mark.parametrize("name", ["rpg_rf_urkl_clip_pp", "rpg_rf_urkl_clip_ppo_v3", "rpg_fkl_clip_hard", ""])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="unknown loss name"):
        LossSpec.parse(name)


def test_the_plugin_and_a_run_bound_rho_alike():
    assert yaml.safe_load((RECIPE / "config/rpg_trainer.yaml").read_text())["rpg"]["rho_bound"] == RHO_BOUND
