"""One self-contained HTML page of runs: panels, table, settings and versions; no network."""

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from rpg.checks.check import below, leaves
from rpg.checks.secrets import HIDDEN, names_a_secret, without_login
from rpg.methods.labels import order_of
from rpg.results.figures import Legend, Panel, single
from rpg.results.run_settings import INCIDENTAL, ResultsError, differing, printable
from rpg.results.runs import RunLog
from rpg.results.samples import sample_answers
from rpg.results.table import Table
from rpg.results.table_command import HTML, environment

CREATOR = "rpg plot"  # in every file that `rpg plot` writes
DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}


def make_page(runs: Sequence[RunLog], panels: Sequence[Panel], legend: Legend, table: Table, title: str) -> str:
    """The page's text. Order of runs as in `legend`."""
    ordered = [run for _, run in sorted(zip(legend.labels, runs, strict=True), key=lambda pair: order_of(pair[0]))]
    configured = [run for run in ordered if run.config]
    all_settings = [shown(run.config) for run in configured]
    several = differing(all_settings)
    template = environment(
        autoescape=True, finalize=lambda value: printable(value) if type(value) is str else value
    ).get_template("page.html.jinja")
    return template.render(
        title=title,
        creator=CREATOR,
        dashes=DASHES,
        buttons=[_button(label, runs, legend) for label in sorted(set(legend.labels), key=order_of)],
        panels=[Markup(_panel(number, panel, legend)) for number, panel in enumerate(panels)],
        table=table,
        style=HTML,
        configured=configured,
        differing={key: [x or "–" for x in row] for key, row in several.items() if not below(key, INCIDENTAL)},
        shared={key: x for key, x in all_settings[0].items() if key not in several} if configured else {},
        runs=[(run, shown(run.environment), answers(run)) for run in ordered],
    )


def answers(run: RunLog) -> list[tuple[str, str, list[tuple[int, str, float]]]]:
    """`sample_answers`; [] where the samples cannot be used, which the table's notes say."""
    try:
        return sample_answers(run)
    except (ResultsError, OSError):
        return []


def _button(label: str, runs: Sequence[RunLog], legend: Legend) -> dict[str, object]:
    """The button of a label, by the index of its first run; its lines are one mean where it has several runs."""
    names = [run.name for run, other in zip(runs, legend.labels, strict=True) if other == label]
    text = f"{label}, {len(names)} runs" if len(names) > 1 else label
    first = legend.labels.index(label)
    return {"run": first, "look": legend.looks[label], "names": ", ".join(names), "text": text}


def _panel(number: int, panel: Panel, legend: Legend) -> str:
    """A panel's SVG, with ids made unique in the page data-run on all of a run's lines, data-line on its values."""
    text = single(panel, legend)
    text = re.sub(r'id="run-(\d+)(-raw|-band)"', r'data-run="\1"', text)
    text = re.sub(r'id="run-(\d+)"', r'data-line data-run="\1"', text)
    text = re.sub(r'\bid="', f'id="p{number}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#p{number}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(printable(panel.title))}" ', 1)


def shown(content: dict[str, object]) -> dict[str, str]:
    """Dotted key -> value of a configuration or an environment, without logins and secrets: a page is passed on."""
    return {key: shown_value(key, value) for key, value in leaves(content) if value != {}}


def shown_value(key: str, value: object) -> str:
    """A setting's value; of another program's run it may be a secret."""
    name = key.rpartition(".")[2]
    return HIDDEN if name.isupper() and names_a_secret(name) else without_login(str(value))
