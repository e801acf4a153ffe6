"""Make the tables and pictures of docs/results from its parquet files.

python -m scripts.studies                                  print all tables, as Markdown
python -m scripts.studies factors --out docs/results       of these studies; draw the pictures, too
"""

import argparse
import sys
from pathlib import Path

from scripts.studies import contrasts, paper, pretrained
from scripts.studies.lab import report as lab

STUDIES = {
    "pretrained": pretrained.tables,
    "study": contrasts.study,
    "penalty": contrasts.penalty,
    "factors": contrasts.factors,
    "stability": contrasts.stability,
    "ahead": contrasts.ahead,
    "paper": paper.tables,
    "lab": lab.tables,
}
PICTURES = {"pretrained": pretrained.draw, "lab": lab.draw}


def main(argv: list[str] | None = None) -> int:
    """Print the tables of the named studies, all by default."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)} (all)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="draw the pictures into DIR")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.names) - STUDIES.keys()):
        parser.error(f"unknown study {unknown[0]}")
    for name in args.names or STUDIES:
        print(f"## {name}", *STUDIES[name](), sep="\n\n", end="\n\n")
        if args.out and name in PICTURES:
            args.out.mkdir(parents=True, exist_ok=True)
            PICTURES[name](args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
