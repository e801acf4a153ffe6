"""Pictures: their content per run, and colours that do not depend on the other runs."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from rpg.cli import main
from rpg.registry.methods import NAMES
from rpg.results.figures import KL, Figure, Panel, band, draw, figure, looks_of, make_panels, middle_out, smooth
from rpg.results.runs import load_runs
from rpg.results.table import build_table
from tests.builders.runs import config, records, write_run, write_samples

LOSSES = {
    "rpg_cpu_urkl1e-4": "rpg_urkl",
    "rpg_cpu_ufkl1e-4_rf_clip_ppo_0.2_0.28": "rpg_rf_ufkl_clip_ppo",
    "grpo": "vanilla",
}


@pytest.fixture(scope="module")
def plotted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, loss in LOSSES.items():
        write_run(folder / name, records([0.1, 0.2]), config(name, loss=loss))
    assert main(["plot", str(folder), "--out", str(folder / "plots")]) == 0
    return folder


def test_both_pictures_are_whole_and_name_every_method(plotted):
    assert (plotted / "plots" / "panels.png").read_bytes()[:4] == b"\x89PNG"
    svg = (plotted / "plots" / "panels.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    for label in ("RPG-URKL", "RPG-REINFORCE-UFKL", "GRPO"):
        assert f">{label}</text>" in svg
    for title in ("AIME24 accuracy", "critic score", "entropy", "response length", "clipped tokens"):
        assert f">{title}" in svg


def test_a_method_looks_the_same_in_any_company():
    alone = looks_of(["RPG-URKL"])["RPG-URKL"]
    for others in (["GRPO"], list(NAMES), ["something else", "RPG-URKL (lr 5e-7)"]):
        assert looks_of([*others, "RPG-URKL"])["RPG-URKL"] == alone
    pair = looks_of(["RPG-URKL (lr 1e-6)", "RPG-URKL (lr 5e-7)"])
    assert len({look.dash for look in pair.values()}) == 2
    assert {look.colour for look in pair.values()} == {alone.colour}
    assert len(set(looks_of([f"RPG-URKL (lr {n})" for n in range(8)]).values())) == 8


def test_files_of_others_are_not_replaced(plotted, capsys):
    """A former result is replaced."""
    out = plotted / "replaced"
    for _ in range(2):
        assert main(["plot", str(plotted / "grpo"), "--out", str(out)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "panels.svg").write_text("mine")
    assert main(["plot", str(plotted), "--out", str(out)]) == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before | {"panels.svg": b"mine"}
    assert str(out / "panels.svg") in capsys.readouterr().err


def test_seeds_of_a_method_are_one_line_with_a_band(tmp_path):
    """Accuracies 0.2 and 0.4 at step 2: mean 0.3, standard error 0.1414 / sqrt(2) = 0.1."""
    for seed in (1, 2):
        write_run(tmp_path / f"s{seed}", records([0.1, 0.2 * seed]), config("r", seed=seed))
    write_run(tmp_path / "grpo", records([0.1, 0.2]), config("grpo", loss="vanilla"))
    members = [pd.Series({0: 0.1, 2: 0.2}), pd.Series({0: 0.1, 2: 0.4})]
    seeds = band(members)
    assert seeds["mean"].to_dict() == pytest.approx({0: 0.1, 2: 0.3})
    assert seeds["error"].to_dict() == pytest.approx({0: 0.0, 2: 0.1})
    assert band(members[:1]) is None
    assert band([members[0], members[0][:1]]) is None  # of different lengths: a line each
    resumed = pd.Series({0: 0.1, 1: 9.0, 2: 0.4})  # validated where it was resumed
    assert band([members[0], resumed]).equals(seeds)
    panel, axes = make_panels(build_table(*load_runs([tmp_path])))[0], Figure().subplots()
    draw(axes, panel, looks_of(list(panel.rows)))
    assert {label: len(members) for label, members in panel.rows.items()} == {"GRPO": 1, "RPG-URKL": 2}
    assert (len(axes.lines), len(axes.collections)) == (2, 1)  # a line a row, a band


def test_pass_at_k_by_step(tmp_path, capsys):
    """Two problems, two samples: at step 0 one problem has a right one, at step 2 both; verl logs no such metric."""
    run = write_run(tmp_path / "r", records([0.25, 0.5]), config("r", steps=2))
    for step, answers in ((0, {"p": (0, 1), "q": (0, 0)}), (2, {"p": (0, 1), "q": (1, 0)})):
        samples = [(name, acc) for name, accs in answers.items() for acc in accs]
        write_samples(run, step, [{"input": name, "gts": "4", "output": "", "acc": acc} for name, acc in samples])
    other = write_run(tmp_path / "s", records([0.1, 0.2]), config("s", loss="vanilla"))  # without samples
    table = build_table(*load_runs([run, other]))
    (panel,) = [panel for panel in make_panels(table, 2) if "pass@" in panel.title]
    assert panel.title == "AIME24 pass@2"
    assert {label: [list(line.items()) for line in lines] for label, lines in panel.rows.items()} == {
        "RPG-URKL": [[(0, 0.5), (2, 1.0)]],
    }
    assert main(["plot", str(run), str(other), "--pass-at", "2", "--out", str(tmp_path / "p")]) == 1
    assert "note: s: no pass@2 of AIME24" in capsys.readouterr().err
    assert ">AIME24 pass@2<" in (tmp_path / "p/panels.svg").read_text()


@pytest.mark.parametrize("form", ["RPG-REINFORCE-URKL (no clip) (lr {}e-3)", "run_{}", "RPG-URKL (lr 1, name r{})"])
def test_many_rows_have_visible_colours(form):
    """Forty-seven rows: white on white from the twentieth before, or six colours in turn."""
    colours = {look.colour for look in looks_of([form.format(n + 1) for n in range(47)]).values()}
    assert len(colours) == 47
    # relative luminance (WCAG, without gamma): 1 for white
    assert max(rgb @ [0.2126, 0.7152, 0.0722] for rgb in map(np.array, map(to_rgb, colours))) < 0.75


def test_long_names_are_shortened_and_differ():
    assert middle_out("a" * 30 + "x" * 30, 20) == "a" * 10 + "…" + "x" * 9
    names = [f"{'sweep-' * 26}{end}" for end in ("0", "1")]
    looks = looks_of([f"RPG-URKL (data {name})" for name in names])
    made = figure([Panel(f"{'long-' * 20}accuracy", {}, is_validation=True)], looks)
    assert len(made.axes[0].get_title(loc="left")) <= 34
    texts = {text.get_text() for text in made.legends[0].get_texts()}
    assert len(texts) == 2
    assert max(map(len, texts)) <= 34


@pytest.mark.parametrize(("steps", "smoothed"), [(3, False), (40, True)])
def test_a_running_mean_is_said_and_three_steps_have_none(steps, smoothed):
    series = pd.Series([0.1, 0.9, 0.3, 0.5] * 10)[:steps]
    assert smooth(series).equals(series) is not smoothed
    axes = drawn(series)
    assert ("running mean" in axes.get_xlabel()) is smoothed
    assert len(axes.lines) == 1 + smoothed  # single steps are drawn behind it


def drawn(values, is_validation=False):
    """Return the axes of a panel with one line."""
    axes = Figure().subplots()
    draw(axes, Panel("x", {"GRPO": [pd.Series(values)]}, is_validation), looks_of(["GRPO"]))
    return axes


def test_a_single_step_is_a_visible_point_and_axes_of_shares_stay_between_0_and_1():
    assert [drawn([0.5] * steps).lines[0].get_marker() for steps in (1, 2)] == ["o", "None"]
    assert drawn([0.0, 1.0], is_validation=True).get_ylim() == (0, 1)
    assert drawn([0.0, 0.02], is_validation=True).get_ylim()[0] == 0
    assert drawn([-0.5, 0.5]).get_ylim()[0] < -0.5
    assert drawn([0.0, 40.0]).get_ylim()[1] > 40


def test_a_kl_of_zero_stays_on_a_logarithmic_axis_with_plain_ticks():
    """From 1e-5 to 1e-2 the axis is logarithmic; within two orders of magnitude it is linear."""
    axes = Figure().subplots()
    draw(axes, Panel(KL, {"GRPO": [pd.Series([0.0, 1e-5, 1e-3, 1e-2])]}), looks_of(["GRPO"]))
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] <= 0
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1e-05", "0.0001", "0.001", "0.01"]
    linear = Figure().subplots()
    draw(linear, Panel(KL, {"GRPO": [pd.Series([0.4, 0.6])]}), looks_of(["GRPO"]))
    assert linear.get_yscale() == "linear"


def test_a_single_run_has_the_interval_of_its_last_validation(tmp_path):
    """Ninety problems, 45 right: the bar is 0.5 +- 1.96 sqrt(0.25 / 90) = 0.5 +- 0.103, and inside the axis."""
    run = write_run(tmp_path / "r", records([0.4, 0.5]), config("r", steps=2))
    write_samples(run, 2, [{"input": f"p{n}", "gts": "4", "output": "", "acc": n % 2} for n in range(90)])
    panel = make_panels(build_table(*load_runs([run])))[0]
    assert panel.intervals == {"RPG-URKL": pytest.approx((0.397, 0.603), abs=0.02)}
    axes = Figure().subplots()
    draw(axes, panel, looks_of(["RPG-URKL"]))
    low, high = axes.get_ylim()
    assert low < panel.intervals["RPG-URKL"][0] < panel.intervals["RPG-URKL"][1] < high
    assert axes.get_xlabel() == "step (bars: 95 % intervals)"
