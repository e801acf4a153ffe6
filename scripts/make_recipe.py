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
from rpg.results.table import paper_table

RECIPE = Path(__file__).resolve().parents[1] / "recipe" / "rpg"
TABLES = ((8,), (3,), (5, 7), (6,))  # in the README's order; tables 5 and 7 share their runs


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
    """Return the list of names by method."""
    lines = []
    for row in ROWS:
        if row.has_divergence:
            written = f"rpg_<size>_<d><beta>{row.name.removeprefix('rpg')}{'[_<clip>]' if row.clips else ''}"
        else:
            written = f"{row.name}_<size>{'_<beta>' if row.betas else ''}"
        sizes = ", ".join(row.sizes) or "not listed"
        lines.append(f"- `{written}`: {row.label}, `method={row.name}` ({sizes})")
    clips = [*dict.fromkeys(clip for row in ROWS for clip in row.clips)]
    clips += [f"with `{row.name.removeprefix('rpg_rf_')}` also {clip}" for row in ROWS for clip in row.rare_clips]
    values = {"d": DIVERGENCES, "beta": BETAS, "clip": clips}
    listed = "; ".join(f"`<{part}>`: {', '.join(words)}" for part, words in values.items())
    return "\n".join([*lines, "", f"{listed}. {{D}} is `<d>` in capitals.", ""])


def paper_rows() -> str:
    """Return the list of the paper's rows: the scripts of each method, in the order of the tables."""
    titles = [f"{paper_table(numbers[0]).title.partition(': ')[2]} ({_tables(numbers)})" for numbers in TABLES]
    scripts: dict[str, list[str]] = {}
    for numbers in TABLES:
        for row in rows_of(numbers[0]):
            if row.printed:
                scripts.setdefault(row.method, []).append(row.name())
    lines = [f"{'; '.join(titles)}:", ""]
    lines += [f"- {method}: {', '.join(f'`{name}`' for name in names)}" for method, names in scripts.items()]
    for numbers in TABLES:
        benchmarks = [name for number in numbers for name in paper_table(number).benchmarks]
        if others := validation_files(benchmarks):
            files = ",".join(f"data/{name}" for name in others)
            lines += ["", f'Table {numbers[-1]} validates on other files: `TEST_FILE="[{files}]"`.']
    return "\n".join([*lines, ""])


def _tables(numbers: tuple[int, ...]) -> str:
    return f"Table{'s' if numbers[1:] else ''} {' and '.join(map(str, numbers))}"


def data_sets() -> str:
    """Return the list of data sets; not the rows that only have spellings."""
    return "\n".join([*(_data_set(row) for row in DATASETS if row.repository or row.split == "both"), ""])


def _data_set(row: DataSet) -> str:
    split = row.hub_split if row.name in PUBLISHED else None
    place = ", ".join(filter(None, (row.repository, row.config, split))) or "generated"
    rows = f", {row.repeat} rows each" if row.repeat != 1 else ""
    return f"- {' and '.join(row.files)}: {row.problems} problems{rows}; {place}; `{row.data_source}`, {row.answers}"


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
    parts = {"methods": methods(), "tables": paper_rows()}
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
