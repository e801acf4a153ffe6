"""The laboratory: the same numbers for the same seed and any number of processes; CSV and pictures."""

import csv
from pathlib import Path

import pandas as pd
import pytest
import torch

from scripts.studies.lab import report
from scripts.studies.lab.__main__ import main
from scripts.studies.lab.measure import measure
from scripts.studies.lab.sweeps import SWEEPS, unique_settings
from scripts.studies.lab.train import Measured, Scale, Setting

torch.set_num_threads(1)
LAB = Path(__file__).resolve().parents[2] / "docs" / "results" / "lab"


@pytest.mark.slow
def test_command(tmp_path, capsys):
    """Two worker processes and one give the same files."""
    arguments = ["--quick", "--only", "lr", "--seeds", "2", "--workers", "2", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "24 settings, 2 seeds each, in 2 processes" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "lr.csv").open()))
    assert len(rows) == 24
    again = measure(Setting("rpg_rf_urkl_clip_ppo", 0.2, 2, 16, "behavior", kl_coef=1e-4), Scale(2, 128))
    keys = ("loss", "lr", "staleness", "pi_old")
    wanted = ["rpg_rf_urkl_clip_ppo", "0.2", "16", "behavior"]
    row = next(row for row in rows if [row[key] for key in keys] == wanted)
    for name, value in again.items():
        assert row[name] == f"{value:.6g}", name
    assert (tmp_path / "lr.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_others_are_not_replaced(tmp_path, capsys):
    for name in ("identity.csv", "thesis.tex"):
        (tmp_path / name).write_text("mine")
    assert main(["--only", "identity", "--out", str(tmp_path)]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert (tmp_path / "identity.csv").read_text() == "mine"
    (tmp_path / "thesis.tex").unlink()
    assert main(["--only", "identity", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "identity.csv").read_text() != "mine"


def test_the_error_is_the_standard_error_over_seeds(monkeypatch):
    per_seed = torch.tensor([0.1, 0.2, 0.6])
    monkeypatch.setattr("scripts.studies.lab.measure.train", lambda *_: Measured(*[per_seed] * len(Measured._fields)))
    row = measure(Setting("cispo"), Scale())
    assert row["reward"] == pytest.approx(0.3)
    assert row["reward_se"] == pytest.approx(per_seed.double().std().item() / 3**0.5)


def test_a_number_that_is_none_is_an_error(monkeypatch):
    broken = Measured(*[torch.tensor([0.1, float("nan")])] * len(Measured._fields))
    monkeypatch.setattr("scripts.studies.lab.measure.train", lambda *_: broken)
    with pytest.raises(FloatingPointError, match=r"^reward, .* of Setting\(loss='cispo'"):
        measure(Setting("cispo"), Scale())


@pytest.mark.parametrize("name", SWEEPS)
def test_every_cell_of_a_picture_has_its_number_and_its_error(name):
    grids = [grid.quick() for grid in SWEEPS[name]]
    settings = unique_settings(grids)
    names = [name for field in Measured._fields for name in (field, f"{field}_se")]
    rows = [dict.fromkeys(names, 0.101 + 0.007 * count) for count in range(len(settings))]
    results = pd.DataFrame(rows, index=pd.Index(settings, dtype=object))
    figure = report.sweep_figure(grids, results)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    expected = []
    for grid in grids:
        decimals = report.SHOWN[grid.shown][2]
        means = results.loc[grid.settings(), grid.shown]
        expected += [f"{mean:.{decimals}f}\n± {mean:.{decimals}f}" for mean in means]
    assert texts == expected
    shown = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    for count, grid in enumerate(grids):  # labelled, or beside a map that is labelled so
        assert list(grid.rows) in (shown[count], shown[count - count % 2])


def test_powers_of_ten_on_an_axis_are_typeset(tmp_path):
    table = pd.read_csv(LAB / "noise.csv")
    figure = report.noise_figure(table)
    report.write(tmp_path, "noise", table, figure)
    labels = [label for axes in figure.axes for label in axes.get_xticklabels() + axes.get_yticklabels()]
    powers = [label for label in labels if "$" in label.get_text()]
    assert powers
    assert all(label.get_parse_math() for label in powers)
