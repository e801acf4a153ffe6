"""`rpg score RUN...`: score the saved validation samples of runs again, without generating.

The scorer is the reward function in the run's config.yaml as it is now, a judge of rpg.rewards (--judge), or another
reward function (--reward). The verdicts go into a run directory (scoring.py).

`rpg score ROWS.parquet --reward FILE` tries a reward function before a run (try_reward.py).
"""

import argparse
from pathlib import Path

from rpg.arguments import at_least
from rpg.config.keys import KEYS
from rpg.dotted import put
from rpg.files.atomic import METRICS
from rpg.logged import is_validation
from rpg.results.formats import escape_md, show
from rpg.results.messages import Note, ResultsError, exit_code
from rpg.results.runs import load_runs
from rpg.results.scoring import score_run, with_reward
from rpg.results.table import build_table
from rpg.results.try_reward import try_reward
from rpg.rewards import JUDGES


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg score`."""
    runs = "run directory or folder of them; with --reward also a parquet file, whose rows are tried"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=runs)
    scorer = parser.add_mutually_exclusive_group()
    scorer.add_argument("--judge", choices=JUDGES, help="docs/judges.md (default: the run's reward function)")
    scorer.add_argument("--reward", metavar="FILE", help="your reward function")
    parser.add_argument("--function", metavar="NAME", help="with --reward: its name (default: as in a run)")
    keywords = "with --reward: its reward_kwargs"
    parser.add_argument("--keywords", nargs="+", default=[], metavar="KEY=VALUE", help=keywords)
    responses = "for rows of a parquet file: one per row, JSON lines (default: generated)"
    parser.add_argument("--responses", type=Path, metavar="FILE", help=responses)
    parser.add_argument(
        "--rows", type=at_least(1), metavar="N", help="rows of a parquet file that are tried (default: 5)"
    )
    files = "validation files (default: the run's data.val_files)"
    parser.add_argument("--files", nargs="+", type=Path, metavar="FILE", help=files)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: RUN/judge-J); one RUN only")


def run(args: argparse.Namespace) -> int:
    """Score every run and print a table of both; return 1 if input was left out, 2 if all was."""
    tries = bool(args.reward) and not any(path.is_dir() or path.name == METRICS for path in args.runs)
    useless = {"files": tries, "out": tries, "responses": not tries, "rows": not tries}
    useless |= {"function": not args.reward, "keywords": not args.reward}
    if flags := [flag for flag, has_no_use in useless.items() if has_no_use and getattr(args, flag)]:
        use = (
            "a run" if tries else "--reward" if flags[0] in ("function", "keywords") else "--reward and a parquet file"
        )
        raise ResultsError(f"--{flags[0]} requires {use}; leave it out")
    if args.rows and args.responses:
        raise ResultsError("--rows: --responses has one for each row that is scored; leave --rows out")
    if rows := [path for path in args.runs if path.suffix == ".parquet" and not args.reward]:
        raise ResultsError(
            f"{rows[0]}: is a data file, not a run; add --reward FILE to try a reward function on its rows"
        )
    if tries:
        return try_reward(args.reward, args.runs, args.responses, args.rows or 5, args.function, args.keywords)
    if missing := [file for file in args.files or () if not file.is_file()]:
        raise ResultsError(f"--files {missing[0]}: no such file")
    written: list[Path] = []
    before, notes = load_runs(args.runs, is_validation)
    if args.out and len(before) > 1:
        raise ResultsError(f"--out {args.out}: for one run; {len(before)} were given. Leave it out")
    for log in before:
        if args.files:
            put(log.config, KEYS["val_files"], [str(file) for file in args.files])
        scorer = with_reward(log, args.reward, args.function, args.keywords) if args.reward else log
        out = args.out or log.directory / f"judge-{args.judge or scorer.judge}"
        try:
            notes += [note.about(log.name) for note in score_run(scorer, args.judge, out)]
            written.append(out)
        except (ResultsError, OSError) as error:
            notes.append(Note(f"{log.name}, not scored: {error}", left_out=True))
    if not written:
        raise ResultsError("; ".join(note.text for note in notes))
    scored_runs, more = load_runs(written, is_validation)
    table = build_table([*before, *scored_runs], [*notes, *more])
    show(table)
    for directory in written:
        print(f"written: {escape_md(str(directory))}")
    return exit_code(table.notes)
