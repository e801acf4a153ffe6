"""Panels of runs as PNG, SVG and one self-contained HTML page: panels, table, settings and versions."""

import re
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from rpg.diagnostics import printable
from rpg.dotted import leaves
from rpg.files.atomic import write_whole
from rpg.registry.methods import Look
from rpg.results import figures
from rpg.results.formats import markdown
from rpg.results.messages import ResultsError
from rpg.results.run_settings import differing, distinguishes
from rpg.results.samples import sample_answers
from rpg.results.table import Table
from rpg.secrets import HIDDEN, names_a_secret, without_login

CREATOR = "rpg plot"  # metadata of each file
DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}


def plot(table: Table, out: Path, title: str, pass_at: int | None = None) -> list[Path]:
    """Draw the runs of a table into `out` and return the paths. Overwrites only files of `rpg plot`.

    pass_at: as for `figures.make_panels`.

    Raises:
        ResultsError: none of the runs logged a metric that the panels show, or a file is another program's.
    """
    panels = figures.make_panels(table, pass_at)
    if not panels:
        notes = (note.text for note in table.notes)
        raise ResultsError("; ".join(["none of the runs logged a metric that the panels show", *notes]))
    files = [out / name for name in ("panels.png", "panels.svg", "index.html")]
    for file in files:
        if file.exists() and CREATOR.encode() not in file.read_bytes():
            raise ResultsError(f"{file}: not written by `rpg plot`; remove it, or give another --out")
    looks = figures.looks_of(list(table.rows))
    picture = figures.figure(panels, looks)
    contents = (
        figures.save(picture, "png", CREATOR),
        figures.save(picture, "svg", CREATOR),
        make_page(table, panels, looks, title).encode(errors="backslashreplace"),
    )
    out.mkdir(parents=True, exist_ok=True)
    for file, content in zip(files, contents, strict=True):
        write_whole(file, content)
    return files


def make_page(table: Table, panels: list[figures.Panel], looks: dict[str, Look], title: str) -> str:
    """Return the page's text."""
    runs = [run for group in table.rows.values() for run in group]
    configured = [run for run in runs if run.config]
    all_settings = [shown(run.config) for run in configured]
    several = differing(all_settings)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rpg.results", "."),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(
        title=title,
        creator=CREATOR,
        dashes=DASHES,
        looks=looks,
        names={label: ", ".join(run.name for run in group) for label, group in table.rows.items()},
        rows=table.rows,
        panels=[Markup(_panel(number, panel, looks)) for number, panel in enumerate(panels)],
        table=Markup(MarkdownIt().enable("table").render(markdown(table))),
        configured=configured,
        differing={key: [x or "–" for x in row] for key, row in several.items() if distinguishes(key)},
        shared={key: x for key, x in all_settings[0].items() if key not in several} if configured else {},
        runs=[(run, shown(run.environment), sample_answers(run)) for run in runs],
    )


def _panel(number: int, panel: figures.Panel, looks: dict[str, Look]) -> str:
    """Return a panel's SVG with ids unique in the page, data-run on a row's lines and data-line on its values."""
    text = figures.single(panel, looks)
    text = re.sub(r'id="run-(\d+)(-raw|-band)"', r'data-run="\1"', text)
    text = re.sub(r'id="run-(\d+)"', r'data-line data-run="\1"', text)
    text = re.sub(r'\bid="', f'id="p{number}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#p{number}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(printable(panel.title))}" ', 1)


def shown(content: dict[str, object]) -> dict[str, str]:
    """Return dotted key -> value of a configuration or environment, without secrets: a page may be shared."""
    values = {key: without_login(str(value)) for key, value in leaves(content) if value != {}}
    names = {key: key.rpartition(".")[2] for key in values}
    return values | {key: HIDDEN for key, name in names.items() if name.isupper() and names_a_secret(name)}
