"""LossSpec: the table of names, and everything that must be refused."""

import dataclasses

import pytest

from rpg.objectives import LOSS_NAMES, LossSpec
from rpg.objectives.spec import DIVERGENCE_NAMES


def test_the_names_are_those_of_the_design():
    assert {"fkl", "rkl", "ufkl", "urkl"} <= {*DIVERGENCE_NAMES}
    assert {*LOSS_NAMES} == {f"rpg_{d}" for d in DIVERGENCE_NAMES} | {
        f"rpg_rf_{d}{clip}" for d in DIVERGENCE_NAMES for clip in ("", "_clip_hard", "_clip_ppo")
    }


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_name_survives_parse_and_print(name):
    spec = LossSpec.parse(name, kl_coef=0.5, clip_low=0.1, clip_high=0.1, clip_c=3.0)
    assert spec.name == str(spec) == name
    assert (spec.kl_coef, spec.clip_low, spec.clip_high, spec.clip_c) == (0.5, 0.1, 0.1, 3.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kl_coef", -1e-4),
        ("kl_coef", float("nan")),
        ("kl_coef", "1e-4"),
        ("kl_coef", True),
        ("clip_low", -0.1),
        ("clip_high", -0.1),
        ("clip_high", float("inf")),
        ("clip_c", 1.0),
        ("clip_c", 0.5),
        ("z_old", 0.0),
        ("clip_scope", "everything"),
        ("clip_branch", "sign"),
    ],
)
def test_bad_values_are_refused_by_field_name(field, value):
    with pytest.raises(ValueError, match=field):
        LossSpec.parse("rpg_urkl", **{field: value})


@pytest.mark.parametrize("name", ["rpg_rf_urkl_clip_pp", "rpg_rf_urkl_clip_ppo_v3", "rpg_fkl_clip_hard", ""])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="unknown loss name"):
        LossSpec.parse(name)


def test_a_cell_outside_the_table_cannot_be_built():
    with pytest.raises(ValueError, match="no loss has"):
        LossSpec("urkl", "differentiable", "ppo")
    with pytest.raises(dataclasses.FrozenInstanceError):
        LossSpec.parse("rpg_urkl").kl_coef = 1.0  # type: ignore[misc]
