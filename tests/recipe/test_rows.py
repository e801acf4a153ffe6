"""Every script in a row of the paper's tables trains that row's method."""

import pytest

from rpg.registry.methods import script_of
from rpg.results.reproduce_command import choose
from rpg.results.table import paper_table
from tests.builders.launch_scripts import NAMES

TABLES = (3, 5, 6, 7, 8)
MODELS = {"Qwen3-4B": ("4b", None), "Qwen2.5-7B-Instruct": ("7b", "qwen2.5-7b-instruct")}


@pytest.mark.parametrize("table", TABLES)
def test_a_row_s_scripts_train_its_method(table):
    """Judged by their names, which test_scripts.py compares with the scripts."""
    title = paper_table(table).title  # as "Paper, table 8: Qwen2.5-7B-Instruct, 2K context"
    model, context = title.partition(": ")[2].removesuffix("K context").split(", ")
    printed, every = choose(table, ["paper"]), choose(table, ["all"])
    assert (printed, every[: len(printed)], len(every)) == (list(paper_table(table).rows), printed, len(printed) + 7)
    for label in every:
        assert {script_of(label, table), script_of(label, table, "cpu")} <= NAMES.keys()
        name, toy = NAMES[script_of(label, table)], NAMES[script_of(label, table, "cpu")]
        assert (name.label, name.size, name.model) == (label, *MODELS[model])
        assert (name.context or "2k") == f"{context}k"
        assert (toy.label, toy.size) == (label, "cpu")
        assert (toy.method, toy.divergence, toy.beta) == (name.method, name.divergence, name.beta)


CLIPS, BETAS = ["0.1_0.1", "0.2_0.28"], [("1e-4", None), ("1e-3", None), ("1e-3", "fixed")]


@pytest.mark.parametrize(
    ("figure", "context", "lines"),
    [  # as the legends list them; (0.28, 0.28) of Figure 8 is (0.2, 0.28) in its text
        ("figure8", "2k", [(d, "1e-4", clip, None) for clip in CLIPS for d in ("ufkl", "urkl")]),
        ("figure9", "4k", [("ufkl", beta, "0.2_0.28", reference) for beta, reference in BETAS]),
    ],
)
def test_the_lines_of_a_figure_of_ablations_have_scripts(figure, context, lines):
    for size in ("4b", "cpu"):
        scripts = [script_of(label, figure, size) for label in choose(figure, ["paper"])]
        assert {*scripts} <= NAMES.keys()
        names = [NAMES[script] for script in scripts]
        assert [(name.divergence, name.beta, name.clip, name.reference) for name in names] == lines
        assert {(name.size, name.context) for name in names} == {(size, context if size == "4b" else None)}
        assert {(name.method, name.model, name.schedule) for name in names} == {("rpg_rf_clip_ppo", None, "sync")}
