"""Contrasts of losses in the paper's own tables (rpg/results/paper_tables.csv)."""

from importlib import resources

import mpmath
import pandas

from scripts.studies.common import markdown

COLUMN = ["table", "model", "benchmark", "column"]
PAIRS = (("RPG-REINFORCE", "RPG"), ("RPG-REINFORCE", "DAPO"))


def tables() -> list[str]:
    """Return Markdown: contrasts by benchmark, then the highest lead and the spread of the AIME columns.

    Means over columns (last and best), ± one standard error over tables, p of Student's t. The columns of a table come
    from the same runs, so a table counts once.
    """
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pandas.read_csv(file)
    printed["model"] += ", " + printed.context
    printed["loss"] = printed.method.str.replace(r"-[A-Z]+KL$|-[FR]KL$", "", regex=True)
    values = printed.melt([*COLUMN[:-1], "method", "loss"], ["last", "best"], "column")
    means = values.groupby([*COLUMN, "loss"]).value.mean().unstack("loss").reset_index()
    means["benchmark"] = means.benchmark.str.replace(r"^AIME\d+$", "AIME", regex=True)
    rows = [
        [f"{plus} less {minus}", name, str(columns.table.nunique()), str(len(columns)), *lead(columns, plus, minus)]
        for plus, minus in PAIRS
        for name, columns in means[means.benchmark.isin(["AIME", "AMC23"])].groupby("benchmark")
    ]
    aime = values[values.benchmark.str.startswith("AIME")]
    reinforce = aime[aime.loss == "RPG-REINFORCE"].groupby(COLUMN).value
    highest = (reinforce.max() - aime[aime.loss == "DAPO"].set_index(COLUMN).value).max()
    spread = [
        ["highest row of the highest column, less DAPO", f"{highest:+.4f}"],
        ["standard deviation of the RPG-REINFORCE rows of a column", f"{(reinforce.std() ** 2).mean() ** 0.5:.3f}"],
    ]
    head = ["contrast", "benchmark", "tables", "columns", "difference", "p"]
    return [markdown(head, rows, texts=2), markdown(["AIME", "value"], spread)]


def lead(columns: pandas.DataFrame, plus: str, minus: str) -> tuple[str, str]:
    """Return a difference with its standard error, and p, two-sided."""
    by_table = (columns[plus] - columns[minus]).groupby(columns.table).mean()
    freedom, t = len(by_table) - 1, by_table.mean() / by_table.sem()
    p = mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True)
    return f"{by_table.mean():+.4f} ± {by_table.sem():.4f}", f"{float(p):.3f}"
