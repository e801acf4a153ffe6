"""`rpg lab`: the same numbers for the same seed and any number of processes; CSV, pictures, page."""

import csv
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest
import torch

from rpg import cli
from rpg.lab import report
from rpg.lab.measure import measure
from rpg.lab.sweeps import sweeps, unique_settings
from rpg.lab.train import Measured, Scale, Setting

torch.set_num_threads(1)


@pytest.mark.slow
def test_command(tmp_path, capsys):
    """Two processes in one run, one in this; what they write is the same."""
    arguments = ["lab", "--quick", "--only", "lr", "--seeds", "2", "--workers", "2", "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "12 settings, 2 seeds each, in 2 processes" in printed
    rows = list(csv.DictReader((tmp_path / "lr.csv").open()))
    assert len(rows) == 12
    again = measure(Setting("rpg_rf_urkl_clip_ppo", 0.2, 2, 16, "behavior", kl_coef=1e-4), Scale(2, 128))
    keys = ("loss", "lr", "pi_old")
    row = next(row for row in rows if [row[key] for key in keys] == ["rpg_rf_urkl_clip_ppo", "0.2", "behavior"])
    for name, value in again.items():
        assert row[name] == f"{value:.6g}", name
    page = (tmp_path / "index.html").read_text()
    assert f"{again['reward']:.3f}" in page
    assert f"± {again['reward_se']:.3f}" in page
    assert not re.search(r'(src|href)="?https?:', page.replace("http://www.w3.org/1999/xlink", ""))
    assert (tmp_path / "lr.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_of_another_program_stays(tmp_path):
    command = ["lab", "--only", "identity", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    assert cli.main(command) == 0  # its own page is replaced
    (tmp_path / "index.html").write_text("mine")
    assert cli.main(command) == 2
    assert (tmp_path / "index.html").read_text() == "mine"


def test_the_error_is_the_standard_error_over_seeds(monkeypatch):
    per_seed = torch.tensor([0.1, 0.2, 0.6])
    monkeypatch.setattr("rpg.lab.measure.train", lambda *_: Measured(*[per_seed] * len(Measured._fields)))
    row = measure(Setting("cispo"), Scale())
    assert row["reward"] == pytest.approx(0.3)
    assert row["reward_se"] == pytest.approx(per_seed.double().std().item() / 3**0.5)


def test_a_number_that_is_none_is_an_error(monkeypatch):
    broken = Measured(*[torch.tensor([0.1, float("nan")])] * len(Measured._fields))
    monkeypatch.setattr("rpg.lab.measure.train", lambda *_: broken)
    with pytest.raises(FloatingPointError, match=r"^reward, .* of Setting\(loss='cispo'"):
        measure(Setting("cispo"), Scale())


def test_every_cell_of_a_picture_has_its_number_and_its_error():
    sweep = sweeps(quick=True)[0]
    settings = unique_settings([sweep])
    names = [name for field in Measured._fields for name in (field, f"{field}_se")]
    rows = [dict.fromkeys(names, 0.101 + 0.007 * count) for count in range(len(settings))]
    results = pd.DataFrame(rows, index=pd.Index(settings, dtype=object))
    question = report.question(sweep, results)
    texts = [text.get_text() for axes in question.figure.axes for text in axes.texts]
    for grid in sweep.grids:
        for setting in grid.settings():
            mean = results.loc[setting, grid.shown]
            assert f"{mean:.3f}\n± {mean:.3f}" in texts


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_killed_run(number, tmp_path):
    command = [sys.executable, "-m", "rpg.cli", "lab", "--quick", "--only", "lr", "--out", str(tmp_path)]
    with subprocess.Popen([*command, "--workers", "2"], stdout=subprocess.DEVNULL) as started:
        workers = []
        deadline = time.monotonic() + 120
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
            workers = [p for p in psutil.Process(started.pid).children() if "spawn_main" in " ".join(p.cmdline())]
        time.sleep(5)  # into the first settings
        started.send_signal(number)
    assert len(workers) == 2
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
