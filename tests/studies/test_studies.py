"""The studies: runs are packed and read again; the laboratory's published numbers are those of its code."""

import json
import shutil

import pandas
import pytest
import torch

from scripts.studies import __main__ as studies
from scripts.studies import common, pack
from scripts.studies.lab import __main__ as lab
from scripts.studies.lab import rates, report
from scripts.studies.lab.identity import identity_table
from scripts.studies.lab.scope import CUT, RESPONSE, TOKEN, Cell, train
from tests.builders.runs import config, records, write_run


def test_packed_runs_are_read_again(tmp_path, monkeypatch):
    for seed in (1, 2):
        run = tmp_path / f"runs/urkl-seed{seed}"
        write_run(run, records([0.2, 0.25 * seed, 0.5]), config("rpg_cpu_urkl1e-4", seed=seed))
        (run / "environment.json").write_text(json.dumps({"git_commit": f"abc{seed}"}))
    monkeypatch.setattr("sys.argv", ["pack", str(tmp_path / "runs"), str(tmp_path / "small.parquet")])
    pack.main()
    shutil.rmtree(tmp_path / "runs/urkl-seed1")  # of another machine: it stays in the file
    pack.main()
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    runs, _ = common.load("small")
    assert list(runs.index) == ["urkl-seed1", "urkl-seed2"]
    assert set(runs.arm) == {"urkl"}
    assert list(runs.seed) == [1, 2]
    assert list(runs.commit) == ["abc1", "abc2"]
    assert set(runs["algorithm.adv_estimator"]) == {"rpg"}
    assert list(runs[common.ACCURACY]) == [0.5, 0.5]
    # scores -0.4, -0.3, -0.2, -0.1 in batches 1 to 4
    assert list(runs[common.SCORE]) == pytest.approx([-0.25, -0.25])


def test_a_difference_is_blocked_by_seed():
    """Arm b is 1 above a in every seed; seeds differ by 10. Errors +-0.1 leave a residual variance of 0.04 / 2."""
    runs = pandas.DataFrame({"arm": ["a", "b"] * 3, "seed": [1, 1, 2, 2, 3, 3], "y": [0.1, 0.9, 9.9, 11.1, 20.0, 21.0]})
    estimate = common.difference(runs, "arm", ["b"], ["a"], "y")
    # differences 0.8, 1.2, 1.0: mean 1, standard error 0.2 / sqrt(3)
    assert estimate.value == pytest.approx(1.0)
    assert estimate.error == pytest.approx(0.2 / 3**0.5)
    assert estimate.freedom == 2


@pytest.mark.full
def test_the_laboratory_and_every_table_and_picture(tmp_path, capsys):
    assert lab.main(["--quick", "--out", str(tmp_path / "quick.parquet")]) == 0
    quick = pandas.read_parquet(tmp_path / "quick.parquet")
    assert set(quick.question) == set(lab.QUESTIONS)
    assert lab.main(["--quick", "--only", "scope", "--out", str(tmp_path / "quick.parquet")]) == 0
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "quick.parquet").set_index("question"),
                                      quick.set_index("question"))  # fmt: skip
    capsys.readouterr()
    assert studies.main(["--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("## ") == len(studies.STUDIES)
    assert {path.name for path in tmp_path.glob("*.png")} == {"pretrained.png", "rates.png"}


@pytest.mark.full
def test_enumerated_numbers_are_those_of_the_code():
    table = identity_table()
    pandas.testing.assert_frame_equal(report.load("identity")[table.columns], table, rtol=1e-6, atol=1e-12)


@pytest.mark.full
def test_a_cell_of_the_scopes_is_that_of_the_code():
    """Another processor rounds otherwise, and samples other tokens in the end."""
    cell = Cell(6, 1, 0.1, 0.03)
    row = report.load("scope").set_index(list(Cell._fields)).loc[cell]
    ends = {form: train(form, cell, lab.SEEDS) for form in (TOKEN, RESPONSE, CUT)}
    for form in (TOKEN, RESPONSE):
        assert ends[form].mean().item() == pytest.approx(row[form], abs=row[f"{form}_se"])
    torch.testing.assert_close(ends[CUT], ends[RESPONSE], rtol=0, atol=0)  # on fresh samples every product is 1


@pytest.mark.full
def test_a_training_of_the_rates_is_that_of_the_code():
    """GSPO's advantages are divided and its ratio is the response's: verl's estimator and loss are called."""
    rows = report.load("rates").set_index(["label", "length", "lr", "fresh"]).sort_index()
    lr = rates.RATES[6]
    row = rows.loc[("gspo_cpu", 6, lr, False)]
    ends = rates.train("gspo_cpu", 6, lr, lab.SEEDS, rates.SEED)
    for name, measured in ends.items():
        assert measured.mean().item() == pytest.approx(row[name], abs=row[f"{name}_se"])
