"""`rpg plot`: panels of runs as PNG, SVG and one self-contained HTML page."""

import argparse
from pathlib import Path

from rpg.files.atomic import write_whole
from rpg.results import figures
from rpg.results.page import CREATOR, make_page
from rpg.results.run_settings import ResultsError, printable, refusing, show_notes
from rpg.results.runs import RunLog, load_runs
from rpg.results.table import Table, build_table, paper_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plot`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="as for `rpg table`")
    parser.add_argument("--out", type=Path, default=Path("plots"), metavar="DIR", help="default: plots")
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N beside ours on the page")
    parser.add_argument("--title", default="RPG runs", help="title of the page")


@refusing
def run(args: argparse.Namespace) -> int:
    """Write panels.png, panels.svg and index.html; 1 where something given was left out, 2 where nothing is left."""
    notes: list[str] = []
    runs = load_runs(args.runs, notes, figures.is_drawn)
    table = build_table(runs, notes, None if args.paper is None else paper_table(args.paper))
    for path in plot(runs, table, args.out, args.title):
        print(printable(str(path)))
    return show_notes(table.notes)


def plot(runs: list[RunLog], table: Table, out: Path, title: str) -> list[Path]:
    """Draw the runs of a table into `out`; returns the paths. It replaces files of `rpg plot` alone.

    Raises:
        ResultsError: none of the runs logged a metric that the panels show, or a file of another program is in the way.
    """
    panels = figures.make_panels(runs)
    if not panels:
        raise ResultsError("; ".join(["none of the runs logged a metric that the panels show", *table.notes]))
    legend = figures.make_legend(runs, table)
    picture = figures.figure(panels, legend)
    files = {
        out / "panels.png": figures.save(picture, "png", CREATOR),
        out / "panels.svg": figures.save(picture, "svg", CREATOR),
        out / "index.html": make_page(runs, panels, legend, table, title).encode(errors="backslashreplace"),
    }
    for file in files:
        if file.exists() and CREATOR.encode() not in file.read_bytes():
            raise ResultsError(f"{file}: not written by `rpg plot`; remove it, or give another --out")
    out.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_whole(file, content)
    return list(files)
