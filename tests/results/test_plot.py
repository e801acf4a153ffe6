"""Pictures: their content per run, colours, axes."""

import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from rpg.cli import main
from rpg.results.figures import Figure, draw, looks_of, make_panels
from rpg.results.runs import load, load_runs
from rpg.results.table import build_table
from tests.builders.runs import config, records, write_run, write_samples

LOSSES = {"a": "rpg_urkl", "b": "rpg_rf_ufkl_clip_ppo", "c": "vanilla"}


def test_both_pictures_are_whole_and_name_every_method(tmp_path, capsys):
    for name, loss in LOSSES.items():
        write_run(tmp_path / name, records([0.1, 0.2]), config(name, loss=loss) | {"reward": {"num": name}})
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "plots")]) == 0
    assert "the training rewards do not compare: reward.num differ" in capsys.readouterr().err
    assert (tmp_path / "plots/panels.png").read_bytes()[:4] == b"\x89PNG"
    svg = (tmp_path / "plots/panels.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    for label in ("RPG-URKL", "RPG-REINFORCE-UFKL", "GRPO"):
        assert f">{label}</text>" in svg
    for title in ("AIME24 accuracy", "critic score", "entropy (nats)", "response length", "clipped tokens"):
        assert f">{title}" in svg
    assert "staleness" not in svg  # which no run has


def test_seeds_of_a_method_are_one_line_with_a_band(tmp_path):
    """Accuracies 0.2 and 0.4 at step 2: mean 0.3, standard error 0.1414 / sqrt(2) = 0.1; one run has one more."""
    for seed in (1, 2):
        lines = records([0.1, 0.2 * seed])
        lines[1][1].update({"val-core/aime24/acc/mean@1": 9.0} if seed == 2 else {})
        write_run(tmp_path / f"s{seed}", lines, config("r", seed=seed))
    write_run(tmp_path / "grpo", records([0.1, 0.2]), config("grpo", loss="vanilla"))
    rows, axes = make_panels(build_table(load_runs([tmp_path])))["AIME24 accuracy"], Figure().subplots()
    draw(axes, "AIME24 accuracy", rows, looks_of(list(rows)))
    assert {label: len(own.columns) for label, own in rows.items()} == {"GRPO": 1, "RPG-URKL": 2}
    assert axes.lines[1].get_xydata().tolist() == [[0, 0.1], [2, pytest.approx(0.3)]]
    (band,) = axes.collections
    assert sorted({round(y, 6) for _, y in band.get_paths()[0].vertices}) == [0.1, 0.2, 0.4]
    short = pd.concat([rows["RPG-URKL"][0], rows["RPG-URKL"][1][:1]], axis=1)
    draw(axes := Figure().subplots(), "AIME24 accuracy", {"GRPO": short}, looks_of(["GRPO"]))
    assert (len(axes.lines), len(axes.collections)) == (2, 0)  # of different lengths: a line each
    labels = [f"GRPO (lr {n})" for n in range(7)] + ["RPG-REINFORCE-URKL", *(f"runs/{n}" for n in range(12))]
    assert len({(to_hex(look.colour), look.dash) for look in looks_of(labels).values()}) == len(labels)


def test_a_reward_of_0_has_its_panel_and_a_fall_is_not_drawn_before_it(tmp_path):
    lines = [(step, {"critic/score/mean": 0, "actor/entropy": 0.1 * (step < 30)}) for step in range(1, 41)]
    panels = make_panels(build_table([load(write_run(tmp_path, lines, config("a")))]))
    assert list(panels) == ["critic score (training reward)", "entropy (nats)"]
    draw(axes := Figure().subplots(), "entropy (nats)", panels["entropy (nats)"], looks_of(["RPG-URKL"]))
    fall = [0.075, 0.05, 0.025, 0]  # over the last four steps
    assert list(axes.lines[0].get_ydata()[28:33]) == pytest.approx([0.1, *fall])


def test_pass_at_k_by_step(tmp_path):
    """Two problems, two samples: at step 0 one problem has a right one, at step 2 both; verl logs no such metric."""
    run = write_run(tmp_path / "r", records([0.25, 0.5]), config("r", steps=2))
    for step, answers in ((0, {"p": (0, 1), "q": (0, 0)}), (2, {"p": (0, 1), "q": (1, 0)})):
        samples = [(name, acc) for name, accs in answers.items() for acc in accs]
        write_samples(run, step, [{"input": name, "gts": "4", "output": "", "acc": acc} for name, acc in samples])
    write_run(tmp_path / "s", records([0.1, 0.2]), config("s", loss="vanilla"))  # without samples
    table = build_table(load_runs([tmp_path]))
    rows = make_panels(table, 2)["AIME24 pass@2"]
    assert {label: own[0].to_dict() for label, own in rows.items()} == {"RPG-URKL": {0: 0.5, 2: 1.0}}
    assert table.notes[-1].startswith("no AIME24 pass@2 of GRPO: needs 2 answers to each problem")
    assert "AIME24 pass@3" not in make_panels(table, 3)
    assert table.notes[-1].startswith("no AIME24 pass@3 of GRPO, RPG-URKL: needs 3")
