#!/usr/bin/env python3
"""Generate launch scripts, config/method and the README's tables in recipe/rpg, and the table of data/README.md.

Their source is rpg/registry.
Files of removed methods are not deleted; the tests report them.

python scripts/make_recipe.py
"""

import re
import textwrap
from pathlib import Path

from omegaconf import OmegaConf

from rpg.config.keys import KEYS
from rpg.names import DIVERGENCES
from rpg.registry.datasets import DATASETS, PUBLISHED, DataSet, validation_files
from rpg.registry.methods import BETAS, ROWS, Method
from rpg.registry.scripts import FOLDERS, UNNUMBERED_CLIP, ScriptName, listed, overrides
from rpg.results.rows import rows_of
from rpg.results.table import ERRATA, paper_table

RECIPE = Path(__file__).resolve().parents[1] / "recipe" / "rpg"
TABLES = ((3,), (5, 7), (6,), (8,))  # in the README's order; tables 5 and 7 share their runs


def script(name: ScriptName) -> str:
    """Return a launch script."""
    clip = name.clip or (UNNUMBERED_CLIP if name.row.clips else None)
    about = [
        "RPG without KL" if name.beta == "0" else name.label,
        name.beta not in (None, "0") and f"beta {name.beta}",
        clip and f"clip ({clip.replace('_', ', ')})",
        name.reference and "reference fixed at the initial model",
    ]
    where = [
        (name.hub_model or "").partition("/")[2] or "toy task",
        name.context and f"{name.context.upper()} context",
        name.size == "cpu" and "CPU profile",
        name.optim == "schedulefree" and "schedule-free AdamW",
        name.schedule == "async" and "asynchronous",
    ]
    lines = ["#!/usr/bin/env bash", f"# {', '.join(filter(None, about))}; {', '.join(filter(None, where))}"]
    if name.size == "7b" and name.row.lr_7b:
        lines.append(f"# lr: {name.row.lr_7b} in the release's REINFORCE scripts, 1e-6 in the paper")
    lines.append("""script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \\""")
    words = " ".join([*overrides(name), '"$@"'])
    wrapped = textwrap.wrap(words, 110, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines) + "\n    " + " \\\n    ".join(wrapped) + "\n"


def group_entry(method: Method) -> str:
    """Return config/method/<name>.yaml."""
    config = OmegaConf.create()
    if method.groups:
        config.defaults = [{f"override /{group}": entry} for group, entry in method.groups.items()]
    for name, value in method.settings.items():
        OmegaConf.update(config, KEYS[name], value, force_add=True)
    about = textwrap.indent(method.about, "# ")
    return f"# @package _global_\n{about}\n# Made by scripts/make_recipe.py.\n{OmegaConf.to_yaml(config)}"


def methods() -> str:
    """Return the table of names by method."""
    lines = ["| A and B | method | settings | sizes |", "|---|---|---|---|"]
    for row in ROWS:
        if row.has_divergence:
            written = f"rpg_<size>_<d><beta>{row.name.removeprefix('rpg')}{'[_<clip>]' if row.clips else ''}"
        else:
            written = f"{row.name}_<size>{'_<beta>' if row.betas else ''}"
        lines.append(f"| `{written}` | {row.label} | `method={row.name}` | {', '.join(row.sizes) or '-'} |")
    clips = dict.fromkeys(clip for row in ROWS for clip in (*row.clips, *row.rare_clips))
    values = {"d": DIVERGENCES, "beta": BETAS, "clip": clips}
    listed = "; ".join(f"`<{part}>`: {', '.join(words)}" for part, words in values.items())
    return "\n".join([*lines, "", f"{listed}. {{D}} is `<d>` in capitals.", ""])


def section(numbers: tuple[int, ...]) -> str:
    """Return the section for paper tables of the same runs: rows, their scripts and the printed numbers."""
    tables = [paper_table(number) for number in numbers]
    benchmarks = [name for table in tables for name in table.benchmarks]
    printed = {(cell["method"], cell["benchmark"]): cell for table in tables for cell in table.records()}
    title = tables[0].title.partition(": ")[2]
    lines = [f"### {title} (Table{'s' if numbers[1:] else ''} {' and '.join(map(str, numbers))})", ""]
    lines += [f"| method | script | {' | '.join(benchmarks)} |", "|" + "---|" * (2 + len(benchmarks))]
    for row in rows_of(numbers[0]):
        if row.printed:
            cells = [printed[row.method, name] for name in benchmarks]
            scores = " | ".join(f"{cell['last']:.4f}/{cell['best']:.4f}" for cell in cells)
            lines.append(f"| {row.method} | `{row.name()}` | {scores} |")
    if others := validation_files(benchmarks):
        files = ",".join(f"data/{name}" for name in others)
        lines += ["", f'Table {numbers[-1]} validates on other files: `TEST_FILE="[{files}]"`.']
    lines += [f"\n{method} on {name}: {text}." for (at, method, name), text in ERRATA.items() if at in numbers]
    return "\n".join([*lines, ""])


def data_sets() -> str:
    """Return the table of data sets; not the rows that only have spellings."""
    lines = ["| file | problems | rows of each | source on the Hugging Face hub | data_source | answers |"]
    lines += ["|" + "---|" * 6, *(_data_set(row) for row in DATASETS if row.repository or row.split == "both")]
    return "\n".join([*lines, ""])


def _data_set(row: DataSet) -> str:
    split = row.hub_split if row.name in PUBLISHED else None
    place = ", ".join(filter(None, (row.repository, row.config, split)))
    cells = (", ".join(row.files), row.problems, row.repeat, place or "generated", row.data_source, row.answers)
    return f"| {' | '.join(map(str, cells))} |"


def readme(page: str, parts: dict[str, str]) -> str:
    """Return a page with its generated parts replaced."""
    for part, text in parts.items():
        begin, end = f"<!-- {part}: made by scripts/make_recipe.py -->\n", "<!-- end -->"
        page = re.sub(rf"(?s)({begin}).*?(?={end})", lambda found, text=text: found[1] + text, page)
    return page


def files() -> dict[Path, str]:
    """Return every generated file and its content."""
    page, data = RECIPE / "README.md", RECIPE.parents[1] / "data" / "README.md"
    with_script = {text: name for text, name in listed().items() if name.size in FOLDERS}
    parts = {"methods": methods(), "tables": "\n".join(map(section, TABLES))}
    return {
        **{RECIPE / name.size / f"run_{text}.sh": script(name) for text, name in with_script.items()},
        **{RECIPE / "config" / "method" / f"{row.name}.yaml": group_entry(row) for row in ROWS},
        page: readme(page.read_text(), parts),
        data: readme(data.read_text(), {"data sets": data_sets()}),
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
        if path.suffix == ".sh":
            path.chmod(0o755)
