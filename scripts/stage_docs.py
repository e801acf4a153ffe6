#!/usr/bin/env python3
"""Copy every page into a directory that Zensical builds (default), or turn formulas of the built site into MathML.

python scripts/stage_docs.py build/docs [--source URL]   links to files that are not pages become URL/<path>, or text
python scripts/stage_docs.py site --formulas
"""

import argparse
import html
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGED = {
    "README.md": "index.md",
    "recipe/rpg/README.md": "reproduce.md",
    "data/README.md": "data.md",
    "CONTRIBUTING.md": "contributing.md",
    "rpg/rewards/verified/README.md": "verified.md",
    "docs/results.md": "after_a_run.md",  # the folder's own page
    "docs/results/README.md": "results/index.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)


def pages() -> dict[Path, str]:
    """Return every page with its place in the site."""
    made = {ROOT / source: target for source, target in STAGED.items()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        made.setdefault(path, path.relative_to(ROOT / "docs").as_posix())
    return made


def relinked(page: Path, into: Path, source: str | None) -> str:
    """Return the page's text with links adapted to the site, and copy its pictures. Exits on a broken link."""
    places = pages()
    here = Path(places[page]).parent

    def link(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = Path(os.path.normpath(page.parent / path))
        if (file / "README.md") in places:
            file = file / "README.md"
        if not file.exists():
            sys.exit(f"{page.relative_to(ROOT)}: the link {target} leads nowhere")
        if file in places:
            return f"[{text}]({os.path.relpath(places[file], here)}{mark}{anchor})"
        relative = file.relative_to(ROOT)
        if picture:
            copy = into / relative
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            return f"![{text}]({os.path.relpath(relative, here)})"
        return f"[{text}]({source}/{relative.as_posix()})" if source else text

    if glued := re.search(r"(?m)^(?![-|#<>]|\s|\d+\.|$).*\n(- .*|\|.*)$", page.read_text()):
        sys.exit(f"{page.relative_to(ROOT)}: a list or table wants an empty line before: {glued[1]}")
    parts = re.split(r"(?ms)(^```.*?^```$|`[^`\n]+`(?!\]))", page.read_text())  # keep code unchanged
    return "".join(part if part.startswith("`") else LINK.sub(link, part) for part in parts)


def command_line() -> str:
    """Return the page of all commands with their `--help`."""
    from rpg.cli import COMMANDS, command

    os.environ["COLUMNS"] = "100"
    lines = ["# Command line\n"]
    for name, (_, about, _) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"rpg {name}", description=about)
        command(name).configure(parser)
        lines += [f"## rpg {name}\n", "```text", parser.format_help().rstrip(), "```\n"]
    return "\n".join(lines)


def stage(into: Path, source: str | None) -> None:
    """Write all pages."""
    shutil.rmtree(into, ignore_errors=True)
    for page, place in pages().items():
        copy = into / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(relinked(page, into, source))
    shutil.copyfile(ROOT / "docs/site.css", into / "site.css")
    (into / "cli.md").write_text(command_line())


def formulas(site: Path) -> None:
    """Replace TeX in the built pages by MathML, which browsers render without a script."""
    from latex2mathml.converter import convert

    space = '<mspace width="0.17em"/>'

    def mathml(formula: re.Match[str]) -> str:
        made = convert(html.unescape(formula[2]), display="inline" if formula[1] == "span" else "block")
        return made.replace("<mi>log</mi>", f"{space}<mi>log</mi>{space}")

    for page in site.rglob("*.html"):
        text = page.read_text()
        if (made := FORMULA.sub(mathml, text)) != text:
            page.write_text(made)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--source", metavar="URL", help="address of the repository's files, ending in /blob/<branch>")
    parser.add_argument("--formulas", action="store_true")
    args = parser.parse_args()
    if args.formulas:
        formulas(args.directory)
    else:
        stage(args.directory, args.source)
