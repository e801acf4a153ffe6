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
    ("name", "settings", "rule"),
    [
        ("rpg_fkl", {}, "reward"),
        ("rpg_fkl", {"clip_scope": "regularized"}, "regularized"),
        ("rpg_fkl", {"clip_scope": "none"}, "none"),
        ("rpg_rf_fkl", {}, "none"),
        ("rpg_rf_fkl_clip_hard", {}, "hard"),
        ("rpg_rf_fkl_clip_ppo", {}, "psi"),
        ("rpg_rf_fkl_clip_ppo", {"clip_branch": "advantage"}, "advantage"),
    ],
)
def test_rule_in_force(name, settings, rule):
    assert LossSpec.parse(name, **settings).rule == rule


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("rpg_rf_urkl_clip_pp", "rpg_rf_urkl_clip_ppo"), ("rpg_uklr", "rpg_urkl"), ("RPG_FKL", "rpg_fkl")],
)
def test_unknown_name_is_refused_with_the_nearest(typo, meant):
    with pytest.raises(ValueError, match=f"unknown loss name '{typo}'; did you mean '.*'") as error:
        LossSpec.parse(typo)
    if typo != "RPG_FKL":  # difflib compares case-sensitively; any suggestion will do there
        assert f"did you mean {meant!r}" in str(error.value)


def test_a_name_is_never_taken_apart():
    for almost in ("rpg_rf_urkl_clip_ppo_v3", "rpg_js", "rpg_fkl_clip_hard", "rpg", ""):
        with pytest.raises(ValueError, match="unknown loss name"):
            LossSpec.parse(almost)


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


def test_a_cell_outside_the_table_cannot_be_built():
    with pytest.raises(ValueError, match="no loss has"):
        LossSpec("urkl", "differentiable", "ppo")
    with pytest.raises(dataclasses.FrozenInstanceError):
        LossSpec.parse("rpg_urkl").kl_coef = 1.0  # type: ignore[misc]
