"""Pictures and page: their content per run, and colours that do not depend on the other runs."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from rpg.cli import main
from rpg.registry.labels import METHODS
from rpg.results.figures import Figure, Panel, band, draw, figure, looks_of, make_panels, save, smooth
from rpg.results.messages import shortened
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
    options = ["--out", str(folder / "plots"), "--title", "My title", "--paper", "3"]
    assert main(["plot", str(folder), *options]) == 0
    return folder


def test_page_stands_alone_and_names_every_run(plotted):
    assert (plotted / "plots" / "panels.png").read_bytes()[:4] == b"\x89PNG"
    assert ElementTree.parse(plotted / "plots" / "panels.svg").getroot().tag.endswith("svg")
    page = (plotted / "plots" / "index.html").read_text()
    for tag in re.findall(r"<(?:script|link|img|iframe)[^>]*>", page):
        assert "http" not in tag
    assert not re.findall(r"(?:src|href)=.https?:", page.replace('xlink:href="#', ""))
    assert len(re.findall(r'<button[^>]*data-run="\d', page)) == len(LOSSES)
    for name in LOSSES:
        assert f"<h3>{name}</h3>" in page
    assert "environment: not recorded" in page
    assert "<h1>My title</h1>" in page
    assert "beside paper, table 3" in page
    panels = page.count('<svg role="img"')
    assert panels == 5  # AIME24, score, entropy, response length, clipped tokens
    assert page.count('data-run="1"') >= panels  # a line in every panel
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', page)) <= set(ids)


def test_the_page_can_tell_the_values_of_its_lines(plotted):
    """Uses the arithmetic of the page's script: accuracies 0.1 and 0.2 after steps 0 and 2."""
    page = (plotted / "plots" / "index.html").read_text()
    axes, panel = re.search(r'data-axes="([^"]+)"(.*?)</svg>', page, re.DOTALL).groups()
    left, right, bottom, top, x0, x1, y0, y1 = map(float, axes.split(","))
    lines = re.findall(r'data-line data-run="\d">\s*<path d="([^"]+)"', panel)
    assert len(lines) == len(LOSSES)
    for line in lines:
        points = np.array([pair.split() for pair in re.findall(r"[\d.]+ [\d.]+", line)], dtype=float)
        steps = x0 + (points[:, 0] - left) / (right - left) * (x1 - x0)
        values = y0 + (points[:, 1] - bottom) / (top - bottom) * (y1 - y0)
        assert steps == pytest.approx([0, 2], abs=1e-4)
        assert values == pytest.approx([0.1, 0.2], abs=1e-6)


def test_a_method_looks_the_same_in_any_company():
    alone = looks_of(["RPG-URKL"])["RPG-URKL"]
    for others in (["GRPO"], list(METHODS), ["something else", "RPG-URKL (lr 5e-7)"]):
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
    (out / "index.html").write_text("mine")
    assert main(["plot", str(plotted / "grpo"), "--out", str(out), "--title", "other"]) == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before | {"index.html": b"mine"}
    assert str(out / "index.html") in capsys.readouterr().err


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
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "plots")]) == 0
    page = (tmp_path / "plots" / "index.html").read_text()
    assert re.findall(r'<button[^>]*data-run="(\d)', page) == ["0", "1"]
    assert "RPG-URKL, 2 runs</button>" in page
    svg = (tmp_path / "plots" / "panels.svg").read_text()
    assert svg.count('id="run-1-band"') == svg.count('id="run-1"') > 1
    assert 'id="run-0-band"' not in svg
    assert 'id="run-2"' not in svg


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
        "GRPO": [],
        "RPG-URKL": [[(0, 0.5), (2, 1.0)]],
    }
    assert main(["plot", str(run), str(other), "--pass-at", "2", "--out", str(tmp_path / "p")]) == 1
    assert "note: s: no pass@2: no saved samples" in capsys.readouterr().err
    assert 'aria-label="AIME24 pass@2"' in (tmp_path / "p/index.html").read_text()


def test_the_page_shows_sample_answers_by_step_and_takes_no_name_for_markup(tmp_path):
    name = "<script>alert(1)</script> '\"><img src=x onerror=alert(1)> \x1b[31m $\\frac$"
    run = write_run(tmp_path / "r", records([0.2, 0.5]), config(name, loss="my_loss"))
    samples = [{"input": f"2+{i}?", "gts": "4", "output": f"<b>{i}</b>\nnext", "acc": int(i == 2)} for i in (1, 2)]
    write_samples(run, 2, samples)
    assert main(["plot", str(run), "--out", str(tmp_path / "p")]) == 0
    page = (tmp_path / "p" / "index.html").read_text()
    assert "step 2: wrong" in page
    assert "step 2: correct" in page
    assert "&lt;b&gt;1&lt;/b&gt;\nnext" in page
    assert not re.search(r"<script>alert|<img|\x1b", page)


@pytest.mark.parametrize("form", ["RPG-REINFORCE-URKL (no clip) (lr {}e-3)", "run_{}", "RPG-URKL (lr 1, name r{})"])
def test_many_rows_have_visible_colours(form):
    """Forty-seven rows: white on white from the twentieth before, or six colours in turn."""
    colours = {look.colour for look in looks_of([form.format(n + 1) for n in range(47)]).values()}
    assert len(colours) == 47
    # relative luminance (WCAG, without gamma): 1 for white
    assert max(rgb @ [0.2126, 0.7152, 0.0722] for rgb in map(np.array, map(to_rgb, colours))) < 0.75


def test_long_names_are_shortened_and_differ():
    short = shortened(["a" * 60, "b" * 60, f"{'a' * 30}x{'a' * 29}"], 20).values()
    assert len({*short}) == 3
    assert max(map(len, short)) <= 20
    names = [f"{'sweep-' * 26}{end}" for end in ("0", "1")]
    looks = looks_of([f"RPG-URKL (data {name})" for name in names])
    text = save(figure([Panel(f"{'long-' * 20}accuracy", {}, is_validation=True)], looks), "svg").decode()
    assert names[0] not in text
    assert "long-" * 20 not in text


@pytest.mark.parametrize(("steps", "smoothed"), [(3, False), (40, True)])
def test_a_running_mean_is_said_and_three_steps_have_none(steps, smoothed):
    series = pd.Series([0.1, 0.9, 0.3, 0.5] * 10)[:steps]
    assert smooth(series).equals(series) is not smoothed
    text = save(figure([Panel("reward", {"GRPO": [series]})], looks_of(["GRPO"])), "svg").decode()
    assert ("running mean" in text) is smoothed
    assert ("run-0-raw" in text) is smoothed


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
