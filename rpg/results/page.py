"""One self-contained HTML page of runs: panels, table, settings and versions; no network."""

import re
from collections.abc import Sequence
from importlib import resources
from string import Template

from rpg.checks.secrets import HIDDEN, names_a_secret, without_login
from rpg.methods.labels import family, order_of
from rpg.methods.table import Look
from rpg.results.config import flatten
from rpg.results.escape import html as escape
from rpg.results.experiments import settings
from rpg.results.figures import BANDS, Legend, Panel, banded, single
from rpg.results.render import COLUMNS, comparison, impossible, judged, value
from rpg.results.runs import Run
from rpg.results.table import Table

DASH_ARRAY = {"-": "none", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}


def make_page(runs: Sequence[Run], panels: Sequence[Panel], legend: Legend, table: Table, title: str) -> str:
    """The page's text. Order of runs as in `legend`."""
    text = resources.files("rpg.results").joinpath("page.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        title=escape(title),
        bands=f"In bands: {BANDS}." if banded(panels, legend) else "",
        legend="\n".join(_button(label, runs, legend) for label in sorted(set(legend.labels), key=order_of)),
        panels="\n".join(f"<figure style='margin:0'>{_panel(i, p, legend)}</figure>" for i, p in enumerate(panels)),
        table=_table(table),
        runs=_differing(runs) + _runs([run for _, run in _in_order(runs, legend)]),
    )


def _in_order(runs: Sequence[Run], legend: Legend) -> list[tuple[int, Run]]:
    return sorted(enumerate(runs), key=lambda item: order_of(legend.labels[item[0]]))


def _button(label: str, runs: Sequence[Run], legend: Legend) -> str:
    """The button of a label, by the index of its first run; its lines are one mean where it has several runs."""
    named = [run for run, other in zip(runs, legend.labels, strict=True) if other == label]
    text = f"{label}, {', '.join(map(seed_text, named))}" if len(named) > 1 else label
    return (
        f"<button type='button' aria-pressed='true' data-run='{legend.labels.index(label)}' "
        f"title='{escape(', '.join(run.name for run in named))}'>"
        f"{_swatch(legend.looks[label])}{escape(text)}</button>"
    )


def _swatch(look: Look) -> str:
    return (
        "<svg width='30' height='8' aria-hidden='true'><line x1='0' x2='30' y1='4' y2='4' stroke-width='3' "
        f"stroke='{look.colour}' stroke-dasharray='{DASH_ARRAY[look.dash]}'/></svg>"
    )


def seed_text(run: Run) -> str:
    """The seeds of a run in a few words, or its name where none is known."""
    seeds = {key: value for key, value in flatten(run.config).items() if key == "data.seed" and value is not None}
    return f"seed {next(iter(seeds.values()))}" if seeds else run.name


def _panel(number: int, panel: Panel, legend: Legend) -> str:
    """A panel's SVG, with ids made unique in the page and data-run on every line of a run."""
    text = single(panel, legend)
    text = re.sub(r'id="run-(\d+)(-raw|-band)?"', r'data-run="\1"', text)
    text = re.sub(r'\bid="', f'id="p{number}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#p{number}-", text)
    return text.replace("<svg ", f"<svg role='img' aria-label='{escape(panel.title)}' ", 1)


def _table(table: Table) -> str:
    header = "".join(f"<th>{escape(b)} {c.title()}</th>" for b in table.benchmarks for c in COLUMNS)
    lines = ["<div class='wide'><table>", f"<tr><th>Method</th>{header}</tr>"]
    for row in table.rows:
        values = "".join(f"<td>{value(table, row, b, c, '<b>{}</b>')}</td>" for b in table.benchmarks for c in COLUMNS)
        lines.append(f"<tr class='{family(row.method)}'><td>{escape(row.label)}</td>{values}</tr>")
        if row.method in table.paper:
            for name, shown in comparison(table, row):
                cells = "".join(f"<td>{value}</td>" for value in shown)
                lines.append(f"<tr class='beside'><td>&emsp;{name}</td>{cells}</tr>")
    lines.append("</table></div>")
    lines.append(
        "<p class='small'>Mean@k. Bold: best of a column, underlined: second; shaded: RPG, darker: RPG-REINFORCE. "
        "Brackets: 95% interval over problems; ±: standard error over seeds"
        + "".join(f"; {escape(said)}" for said in judged(table))
        + ".</p>"
    )
    notes = table.notes + impossible(table)
    return "\n".join(lines) + "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"


# An absolute path: where files lay on the machine that ran is no setting, and a page is passed on.
_FOLDERS = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\",\[\]]+/)+")


def _shown(key: str, value: object) -> str:
    """A setting's value; of another program's run it may be a secret."""
    name = key.rpartition(".")[2]
    if name.isupper() and names_a_secret(name):
        return HIDDEN
    return escape(_FOLDERS.sub("…/", without_login(str(value))))


def _differing(runs: Sequence[Run]) -> str:
    """Settings, one line each, whose values are not the same in all runs that have a configuration."""
    known = [run for run in runs if run.config]
    if len(known) < 2:
        return ""
    found = [settings(run.config, seeds=True) for run in known]
    keys = sorted({key for one in found for key in one})
    keys = [key for key in keys if len({one.get(key) for one in found}) > 1]
    head = "".join(f"<th>{escape(run.name)}</th>" for run in known)
    lines = [
        f"<tr><td>{escape(key)}</td>" + "".join(f"<td>{_shown(key, one.get(key, '–'))}</td>" for one in found) + "</tr>"
        for key in keys
    ]
    return f"<div class='wide'><table class='differing'><tr><th>setting</th>{head}</tr>{''.join(lines)}</table></div>\n"


Lines = list[tuple[str, str]]  # settings by dotted key, as the page shows them


def _runs(runs: Sequence[Run]) -> str:
    """What all runs share, once; then each run's environment and the settings that not all have."""
    of_each = [_lines(run.config) for run in runs]
    known = [lines for lines in of_each if lines]
    shared = set.intersection(*map(set, known)) if len(known) > 1 else set()
    text = ""
    if shared:
        text = _details("settings that all runs share", [line for line in known[0] if line in shared])
    return text + "\n".join(_run(run, lines, shared) for run, lines in zip(runs, of_each, strict=True))


def _lines(content: dict[str, object]) -> Lines:
    return [(key, _shown(key, value)) for key, value in flatten(content).items()]


def _details(title: str, lines: Lines, opened: str = "") -> str:
    rows = "".join(f"<tr><td>{escape(key)}</td><td>{shown}</td></tr>" for key, shown in lines)
    return f"<details{opened}><summary>{title}</summary><table class='settings'>{rows}</table></details>"


def _run(run: Run, config: Lines, shared: set[tuple[str, str]]) -> str:
    """A run's environment, and of its settings those that are not shared."""
    planned = f" of {run.planned_steps}" if run.planned_steps else ""
    own = [line for line in config if line not in shared]
    whose = "settings" if len(own) == len(config) else "settings of its own"
    environment = _lines(run.environment)
    return (
        f"<h3>{escape(run.name)}</h3>"
        f"<p class='small'>{escape(run.method)}, {run.last_step}{planned} steps, judge: {escape(run.judge)}</p>"
        + (_details("environment", environment, " open") if environment else _missing("environment"))
        + (_details(whose, own) if config else _missing("settings"))
    )


def _missing(what: str) -> str:
    return f"<p class='small'>{what}: not recorded</p>"
