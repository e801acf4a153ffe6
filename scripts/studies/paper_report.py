"""RPG-REINFORCE minus DAPO in the paper's own tables: python scripts/studies/paper_report.py OUT

By erratum E1 (docs/mathematics.md) the release's RPG-REINFORCE scripts train one algorithm, so that their rows in a
table differ by chance only. Their mean is compared with DAPO. Writes paper.md into OUT.
"""

import sys
from importlib import resources
from pathlib import Path

import pandas
from report import markdown, write

HEAD = ("table", "model", "benchmark", "column", "rows", "mean - DAPO", "highest - DAPO", "deviation of the rows")


def main() -> None:
    """Write paper.md."""
    (out,) = map(Path, sys.argv[1:])
    columns = leads()
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
    write(out / "paper.md", markdown(HEAD, rows, texts=4), summary)


def leads() -> pandas.DataFrame:
    """Return one line per AIME column of the paper's tables."""
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pandas.read_csv(file)
    printed["model"] += ", " + printed.context
    keys = ["table", "model", "benchmark", "column"]
    aime = printed[printed.benchmark.str.startswith("AIME")]
    values = aime.melt([*keys[:-1], "method"], ["last", "best"], "column")
    rows = values[values.method.str.startswith("RPG-REINFORCE")].groupby(keys).value
    dapo = values[values.method == "DAPO"].set_index(keys).value
    columns = {"rows": rows.size(), "mean": rows.mean() - dapo, "highest": rows.max() - dapo, "deviation": rows.std()}
    return pandas.DataFrame(columns).reset_index()


if __name__ == "__main__":
    main()
