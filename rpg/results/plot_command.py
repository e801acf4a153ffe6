"""`rpg plot`: panels of runs as PNG, SVG and one self-contained HTML page."""

import argparse
import sys
from pathlib import Path

from rpg.results import figures
from rpg.results.page import make_page
from rpg.results.paper import paper_table
from rpg.results.records import ResultsError
from rpg.results.runs import load_runs
from rpg.results.table import build_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plot`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="as for `rpg table`")
    parser.add_argument("--out", type=Path, default=Path("plots"), metavar="DIR", help="default: plots")
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N beside ours on the page")
    parser.add_argument("--title", default="RPG runs", help="title of the page")


def run(args: argparse.Namespace) -> int:
    """Write panels.png, panels.svg and index.html; 2 where something cannot be read."""
    notes: list[str] = []
    try:
        paper = None if args.paper is None else paper_table(args.paper)
        runs = load_runs(args.runs, notes)
        table = build_table(runs, notes, paper)
        panels = figures.make_panels(runs)
        if not panels:
            raise ResultsError("none of the runs logged a metric that the panels show")
        args.out.mkdir(parents=True, exist_ok=True)
    except (ResultsError, OSError) as error:
        print(f"rpg plot: {error}", file=sys.stderr)
        return 2
    legend = figures.make_legend(runs, table)
    paths = figures.save(figures.figure(panels, legend), args.out)
    page = args.out / "index.html"
    page.write_text(make_page(runs, panels, legend, table, args.title), encoding="utf-8")
    for path in (*paths, page):
        print(path)
    for note in table.notes:
        print(f"note: {note}", file=sys.stderr)
    return 0
