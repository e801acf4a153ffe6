"""`rpg plot`: panels of runs as PNG, SVG and one self-contained HTML page."""

import argparse
import sys
from pathlib import Path

from rpg.results import figures
from rpg.results.escape import printable
from rpg.results.page import make_page
from rpg.results.paper import paper_table
from rpg.results.records import LeftOut, ResultsError, about, exit_code
from rpg.results.runs import Run, load_runs, not_shown
from rpg.results.table import Table, build_table

NO_TIMES = "not shown: the log lacks timing_s/step at a step, so that its minutes are not known"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plot`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="as for `rpg table`")
    parser.add_argument("--out", type=Path, default=Path("plots"), metavar="DIR", help="default: plots")
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N beside ours on the page")
    parser.add_argument(
        "--against",
        choices=[figures.STEP, figures.MINUTES],
        default=figures.STEP,
        help="minutes: of training, without validations and saves",
    )
    parser.add_argument("--title", default="RPG runs", help="title of the page")


def run(args: argparse.Namespace) -> int:
    """Write panels.png, panels.svg and index.html; 1 where something given was left out, 2 where nothing is left."""
    notes: list[str] = []
    try:
        paper = None if args.paper is None else paper_table(args.paper)
        runs = load_runs(args.runs, notes)
        table = build_table(runs, notes, paper)
        paths = plot(runs, table, args.out, args.title, args.against)
    except (ResultsError, OSError) as error:
        print(f"rpg plot: {printable(str(error))}", file=sys.stderr)
        return 2
    for path in paths:
        print(printable(str(path)))
    for note in table.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    return exit_code(table.notes)


def plot(runs: list[Run], table: Table, out: Path, title: str, against: str = figures.STEP) -> list[Path]:
    """Draw the runs of a table, to whose notes what could not be shown is added; returns the paths.

    Raises:
        ResultsError: none of the runs logged a metric that the panels show.
    """
    panels = figures.make_panels(runs)
    if not panels:
        raise ResultsError("; ".join(["none of the runs logged a metric that the panels show", *table.notes]))
    for metric in figures.shown_metrics(panels):
        table.notes += [about(run.name, note) for run in runs for note in not_shown(run, metric)]
    if len(panels) > figures.MOST_PANELS:
        left_out = ", ".join(panel.title for panel in panels[figures.MOST_PANELS :])
        table.notes.append(LeftOut(f"more than {figures.MOST_PANELS} panels; left out: {left_out}"))
        del panels[figures.MOST_PANELS :]
    if against == figures.MINUTES:
        table.notes += [about(run.name, LeftOut(NO_TIMES)) for run in runs if not run.minutes()]
        panels = figures.against_minutes(panels, runs)
    return draw(runs, panels, table, out, title)


def draw(runs: list[Run], panels: list[figures.Panel], table: Table, out: Path, title: str) -> list[Path]:
    """Write the pictures and the page into `out`; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    legend = figures.make_legend(runs, table)
    page = out / "index.html"
    page.write_text(make_page(runs, panels, legend, table, title), encoding="utf-8")
    return [*figures.save(figures.figure(panels, legend), out), page]
