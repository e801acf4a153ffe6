"""Contrasts of losses in the paper's own tables.

By erratum E1 (docs/mathematics.md) the release's RPG-REINFORCE scripts train one algorithm, so that their rows in a
table differ by chance only. RPG-REINFORCE, RPG and DAPO have equal token gradients to 4e-4 at the paper's beta
(lab/identity.py), so that their contrasts are A/A tests of the loss.
"""

from importlib import resources

import pandas

from scripts.studies.common import Estimate, markdown

COLUMN = ["table", "model", "benchmark", "column"]
LOSSES = ("RPG-REINFORCE", "RPG", "DAPO")
PAIRS = (("RPG-REINFORCE", "RPG"), ("RPG-REINFORCE", "DAPO"), ("RPG", "DAPO"))


def tables() -> list[str]:
    """Return Markdown: contrasts by benchmark, and the leads and the spread of the AIME columns.

    Means over columns (last and best), ± one standard error over tables, with the 95 % interval of Student's t. The
    columns of a table come from the same runs, so a table counts once.
    """
    values = printed_values()
    head = ("benchmark", "tables", "columns", *(f"{plus} - {minus}" for plus, minus in PAIRS))
    aime = values[values.benchmark.str.startswith("AIME")]
    rows = aime[aime.loss == "RPG-REINFORCE"].groupby(COLUMN).value
    highest = (rows.max() - aime[aime.loss == "DAPO"].set_index(COLUMN).value).max()
    spread = [
        ["highest row of the highest column, less DAPO", f"{highest:+.3f}"],
        ["standard deviation of the RPG-REINFORCE rows of a column", f"{(rows.std() ** 2).mean() ** 0.5:.3f}"],
    ]
    return [markdown(head, contrast_rows(values)), markdown(["AIME", "value"], spread)]


def printed_values() -> pandas.DataFrame:
    """Return one line per number of the paper's tables, with its loss: RPG-REINFORCE, RPG, DAPO or another."""
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pandas.read_csv(file)
    printed["model"] += ", " + printed.context
    printed["loss"] = printed.method.str.replace(r"-[A-Z]+KL$|-[FR]KL$", "", regex=True)
    return printed.melt([*COLUMN[:-1], "method", "loss"], ["last", "best"], "column")


def contrast_rows(values: pandas.DataFrame) -> list[list[str]]:
    """Return the table of contrasts: AIME24 and AIME25 together, then AMC23."""
    means = values[values.loss.isin(LOSSES)].groupby([*COLUMN, "loss"]).value.mean().unstack("loss").reset_index()
    means["benchmark"] = means.benchmark.str.replace(r"^AIME\d+$", "AIME", regex=True)
    rows = []
    for benchmark, columns in means[means.benchmark.isin(["AIME", "AMC23"])].groupby("benchmark"):
        tables, cells = columns.table.nunique(), []
        for plus, minus in PAIRS:
            by_table = (columns[plus] - columns[minus]).groupby(columns.table).mean()
            lead = Estimate(by_table.mean(), by_table.sem(), tables - 1)
            interval = f"{lead.value - lead.reach:+.3f} to {lead.value + lead.reach:+.3f}"
            cells.append(f"{lead.value:+.4f} ± {lead.error:.4f} ({interval})")
        rows.append([str(benchmark), str(tables), str(len(columns)), *cells])
    return rows
