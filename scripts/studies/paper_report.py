"""Contrasts of losses in the paper's own tables: python scripts/studies/paper_report.py OUT

By erratum E1 (docs/mathematics.md) the release's RPG-REINFORCE scripts train one algorithm, so that their rows in a
table differ by chance only. RPG-REINFORCE, RPG and DAPO have equal token gradients to 4e-4 at the paper's beta
(`rpg lab --only identity`), so that their contrasts are A/A tests of the loss. Writes paper.md into OUT.
"""

import sys
from importlib import resources
from pathlib import Path

import pandas
from report import Estimate, markdown, write

HEAD = ("table", "model", "benchmark", "column", "rows", "mean - DAPO", "highest - DAPO", "deviation of the rows")
COLUMN = ["table", "model", "benchmark", "column"]
LOSSES = ("RPG-REINFORCE", "RPG", "DAPO")
PAIRS = (("RPG-REINFORCE", "RPG"), ("RPG-REINFORCE", "DAPO"), ("RPG", "DAPO"))


def main() -> None:
    """Write paper.md."""
    (out,) = map(Path, sys.argv[1:])
    values = printed_values()
    columns = leads(values)
    rows = [
        [*map(str, texts), f"{mean:+.3f}", f"{highest:+.3f}", f"{deviation:.3f}"]
        for *texts, mean, highest, deviation in columns.itertuples(index=False)
    ]
    last, best = (columns[columns.column == name]["mean"].mean() for name in ("last", "best"))
    summary = (
        f"Over all {len(columns)} columns the mean of RPG-REINFORCE is {columns['mean'].mean():+.3f} above DAPO "
        f"({last:+.3f} Last, {best:+.3f} Best). The highest row in any column is {columns.highest.max():+.3f} above "
        f"it. The rows of one column differ by a standard deviation of {(columns.deviation**2).mean() ** 0.5:.3f}."
    )
    contrasts = (
        "Means over columns (last and best) of a benchmark, ± one standard error over tables, with the 95 % interval "
        "of Student's t. The columns of a table come from the same runs, so a table counts once."
    )
    head = ("benchmark", "tables", "columns", *(f"{plus} - {minus}" for plus, minus in PAIRS))
    write(out / "paper.md", markdown(HEAD, rows, texts=4), summary, contrasts, markdown(head, contrast_rows(values)))


def printed_values() -> pandas.DataFrame:
    """Return one line per number of the paper's tables, with its loss: RPG-REINFORCE, RPG, DAPO or another."""
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pandas.read_csv(file)
    printed["model"] += ", " + printed.context
    printed["loss"] = printed.method.str.replace(r"-[A-Z]+KL$|-[FR]KL$", "", regex=True)
    return printed.melt([*COLUMN[:-1], "method", "loss"], ["last", "best"], "column")


def leads(values: pandas.DataFrame) -> pandas.DataFrame:
    """Return one line per AIME column of the paper's tables."""
    aime = values[values.benchmark.str.startswith("AIME")]
    rows = aime[aime.loss == "RPG-REINFORCE"].groupby(COLUMN).value
    dapo = aime[aime.loss == "DAPO"].set_index(COLUMN).value
    columns = {"rows": rows.size(), "mean": rows.mean() - dapo, "highest": rows.max() - dapo, "deviation": rows.std()}
    return pandas.DataFrame(columns).reset_index()


def contrast_rows(values: pandas.DataFrame) -> list[list[str]]:
    """Return the table of contrasts: AIME24 and AIME25 together, then the other benchmarks."""
    means = values[values.loss.isin(LOSSES)].groupby([*COLUMN, "loss"]).value.mean().unstack("loss").reset_index()
    means["benchmark"] = means.benchmark.str.replace(r"^AIME\d+$", "AIME", regex=True)
    rows = []
    for benchmark, columns in means.groupby("benchmark"):
        tables = columns.table.nunique()
        cells = []
        for plus, minus in PAIRS:
            by_table = (columns[plus] - columns[minus]).groupby(columns.table).mean()
            if tables == 1:
                cells.append(f"{by_table.mean():+.4f}")
                continue
            lead = Estimate(by_table.mean(), by_table.sem(), tables - 1)
            interval = f"{lead.value - lead.reach:+.3f} to {lead.value + lead.reach:+.3f}"
            cells.append(f"{lead.value:+.4f} ± {lead.error:.4f} ({interval})")
        rows.append([str(benchmark), str(tables), str(len(columns)), *cells])
    return rows


if __name__ == "__main__":
    main()
