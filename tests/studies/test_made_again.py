"""The numbers of docs/results/lab are those of the laboratory as it is: one cheap setting of each sweep, made again."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

from rpg.names import RHO_BOUND
from rpg.registry.recipe import RECIPE
from scripts.studies.lab.measure import measure
from scripts.studies.lab.sweeps import SWEEPS, unique_settings
from scripts.studies.lab.train import Scale, Setting

LAB = Path(__file__).resolve().parents[2] / "docs/results/lab"
PROBES = {  # beside the cheapest: a forward KL of responses, whose product of rho is bounded
    "kl_scope": {"loss": "rpg_rf_ufkl", "kl_scope": "response", "reference": "fixed", "steps": 16, "kl_coef": 0.2},
}


def probe(name: str) -> Setting:
    settings = [
        setting
        for setting in unique_settings(SWEEPS[name])
        if all(getattr(setting, field) == value for field, value in PROBES.get(name, {}).items())
    ]
    return min(settings, key=lambda setting: setting.batches * setting.steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n if n in PROBES else pytest.param(n, marks=pytest.mark.full) for n in SWEEPS])
def test_a_setting_is_measured_again(name):
    """Within a quarter of a standard error: another processor rounds otherwise, which moves single samples."""
    torch.set_num_threads(1)
    setting = probe(name)
    table = pd.read_csv(LAB / f"{name}.csv")
    fields = {field: value for field, value in dataclasses.asdict(setting).items() if field in table}
    [row] = [row for _, row in table.iterrows() if all(row[field] == value for field, value in fields.items())]
    measured = measure(setting, Scale())
    for outcome in ("reward", "reward_mean", "kl_start"):
        assert measured[outcome] == pytest.approx(row[outcome], abs=row[f"{outcome}_se"] / 4), outcome


def test_the_laboratory_bounds_rho_as_a_run_does():
    assert yaml.safe_load((RECIPE / "config/rpg_trainer.yaml").read_text())["rpg"]["rho_bound"] == RHO_BOUND
