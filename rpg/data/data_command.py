"""`rpg data build` and `rpg data check`."""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpg.arguments import at_least
from rpg.data import toy, user_data
from rpg.data.build import SPLITS, Report, write_splits
from rpg.data.few_shot import with_examples
from rpg.data.published import build, problem_keys
from rpg.data.readers import DataError, read_file, read_hub, read_text
from rpg.data.row_model import GYM_REWARD
from rpg.data.truths import try_truths
from rpg.diagnostics import shown
from rpg.registry.datasets import GYM, OF_SPELLING, PUBLISHED, WITH_SPLITS
from rpg.rewards import JUDGES, is_known
from rpg.rewards.user_function import find_reward

SAFE_NAME = re.compile(r"\w[\w.-]*")
TOY, ONE_FILE, OWN = "toy", "published sets", f"your own data, {' and '.join(sorted(WITH_SPLITS))}"
SETS = (TOY, *PUBLISHED, *sorted(WITH_SPLITS))
REPEATED = ", ".join(f"{row.repeat} for {name}" for name, row in PUBLISHED.items() if row.repeat > 1)


# option: kinds of sets that accept it, default, further arguments for argparse
OPTIONS: dict[str, tuple[tuple[str, ...], Any, dict[str, Any]]] = {
    "--from": ((ONE_FILE, OWN), None, {"metavar": "FILE", "help": f"parquet, JSONL, JSON or CSV file; {OWN}: "
               "also a folder with files train* and test*, or hub:OWNER/NAME[:CONFIG]"}),
    "--question": ((OWN,), None, {"metavar": "COLUMN", "help": "column of the question; FIELD.FIELD: nested"}),
    "--answer": ((OWN,), None, {"metavar": "COLUMN", "help": "column of the answer"}),
    "--name": ((OWN, GYM), None, {"metavar": "NAME", "dest": "files_name",
               "help": "name of the files (default: that of --from, of the set, or of the task)"}),
    "--data-source": ((OWN,), None, {"metavar": "NAME", "help": "MATH or gsm8k: rpg's verifier scores "
                      "the rows by that rule, as data_source MATH/NAME; else their data_source (default: the name)"}),
    "--template": ((OWN, GYM), None, {"metavar": "FILE", "type": Path,
                   "help": "text with {question} (default: the paper's prompt, or reasoning-gym's); with --few-shot "
                   "an example, with {question} and {answer}"}),
    "--few-shot": ((OWN, TOY, GYM), 0, {"metavar": "K", "type": at_least(1),
                   "help": "put K solved training problems in front of each, for a base model"}),
    "--set": ((GYM,), [], {"metavar": "KEY=VALUE", "nargs": "+", "action": "extend", "dest": "settings",
              "help": "options of the task; of one of several tasks: TASK.KEY=VALUE"}),
    "--keep": ((OWN,), [], {"metavar": "COLUMN", "nargs": "+", "help": "columns that your reward function reads"}),
    "--test-rows": ((OWN,), None, {"metavar": "N", "type": at_least(0),
                    "help": "rows drawn for the test file if there is no test split (default: one in ten)"}),
    "--repeat": ((ONE_FILE, TOY), None, {"metavar": "K", "type": at_least(1),
                 "help": f"rows of each problem (default: {REPEATED})"}),
    "--exclude": ((ONE_FILE, OWN, GYM), [], {"metavar": "FILE", "nargs": "+", "type": Path,
                  "help": "leave out the problems of these files, built or as published"}),
    "--train-size": ((TOY, GYM), 2048, {"type": at_least(0), "help": "training problems a task (default: 2048)"}),
    "--test-size": ((TOY, GYM), 256, {"type": at_least(0), "help": "test problems a task (default: 256)"}),
    "--seed": ((TOY, OWN, GYM), None, {"type": int, "help": "selects the problems that are drawn (default: 0)"}),
    "--low": ((TOY,), 0, {"type": int, "help": "smallest operand (default: 0)"}),
    "--high": ((TOY,), 99, {"type": int, "help": "largest operand (default: 99)"}),
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build_parser = actions.add_parser("build", help="write the parquet files of one problem set, or of your own data")
    build_parser.epilog = "example: rpg data build --from mine.csv --question Q --answer A --name mine --test-rows 200"
    add, names = build_parser.add_argument, ", ".join((*SETS, f"{GYM}:TASK[,TASK...]"))
    add("name", nargs="?", metavar="NAME", help=f"{names} (data/README.md); none for your own data")
    add(
        "--out",
        type=lambda text: Path(text).expanduser().absolute(),
        default=Path("data"),
        help="folder to write to (default: data)",
    )
    all_kinds = dict.fromkeys(kinds for kinds, *_ in OPTIONS.values())
    groups = {kinds: build_parser.add_argument_group(f"for {', '.join(kinds)}") for kinds in all_kinds}
    for flag, (kinds, _, arguments) in OPTIONS.items():
        groups[kinds].add_argument(flag, **arguments)

    parser = actions.add_parser("check", help="say what is wrong with parquet files, by row and column")
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--json", action="store_true", help="print the report as JSON")
    add("--tokenizer", metavar="DIR", help="count the tokens of prompts with the tokenizer in this directory")
    scorer = parser.add_mutually_exclusive_group()
    scorer.add_argument(
        "--judge", choices=JUDGES, help="tried on the answers; docs/judges.md (default: as a run's, release)"
    )
    scorer.add_argument("--reward", metavar="FILE", help="your reward function: rpg's rules on answers are off")
    add(
        "--max-prompt-length",
        type=at_least(1),
        metavar="N",
        help="in tokens, with --tokenizer (default: 2048)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the parsed command; return 0 on success, 1 if files have errors, 2 if it was rejected."""
    try:
        if args.action == "check":
            return _check(args)
        kind = _kind_of(args.name)
        for flag, (kinds, default, arguments) in OPTIONS.items():
            option = arguments.get("dest", flag.removeprefix("--").replace("-", "_"))
            if getattr(args, option) is None:
                setattr(args, option, default)
            elif kind not in kinds:
                raise DataError(f"{flag} is for {' and '.join(kinds)} only; leave it out")
        {TOY: build_toy, ONE_FILE: build_published, OWN: build_own, GYM: build_gym}[kind](args)
    except BrokenPipeError:  # `| head`: cli.py ends quietly
        raise
    except (ValueError, OSError, ModuleNotFoundError) as error:
        name = f" {args.name}" if args.action == "build" and args.name else ""
        print(f"rpg data {args.action}{name}: {error}", file=sys.stderr)
        return 2
    return 0


def _check(args: argparse.Namespace) -> int:
    from rpg.data.row_checks import MAX_PROMPT_LENGTH, check_files

    if args.max_prompt_length and not args.tokenizer:
        raise DataError("--max-prompt-length counts tokens; give --tokenizer DIR with it")
    if args.tokenizer and not Path(args.tokenizer).expanduser().is_dir():
        raise DataError(f"--tokenizer {args.tokenizer}: no such directory; give the model's")
    if args.reward:
        find_reward(args.reward)
    length = args.max_prompt_length or MAX_PROMPT_LENGTH
    judge = None if args.reward else args.judge or JUDGES[0]
    return check_files(args.files, args.tokenizer, length, judge, args.json)


def _kind_of(name: str | None) -> str:
    if name is None or name in WITH_SPLITS:
        return OWN
    if name.partition(":")[0] == GYM:
        return GYM
    if name not in SETS:
        own = "for your own data give --from FILE --question COLUMN --answer COLUMN --name NAME"
        raise DataError(f"{name!r} is not a set; one of {', '.join(SETS)}; {own}")
    return TOY if name == TOY else ONE_FILE


def build_toy(args: argparse.Namespace) -> None:
    """Write toy_train.parquet and toy_test.parquet."""
    sizes, seed = {"train": args.train_size, "test": args.test_size}, args.seed or 0
    problems = [
        problem for split in SPLITS for problem in toy.toy_problems(split, seed, sizes[split], args.low, args.high)
    ]
    if args.few_shot:
        problems = with_examples(problems, args.few_shot, None, seed)
    report = Report(written=write_splits(args.out, TOY, problems, repeat=args.repeat or 1))
    print(*report.lines(), sep="\n")


def build_gym(args: argparse.Namespace) -> None:
    """Write NAME_train.parquet and NAME_test.parquet of tasks of reasoning-gym."""
    from rpg.data import gym  # imports the library

    tasks = gym.tasks_of(args.name)
    name = args.files_name or (tasks[0] if len(tasks) == 1 else GYM)
    _require_safe(name)
    options, seed, report = gym.options_of(tasks, args.settings), args.seed or 0, Report()
    sizes, exclude = {"train": args.train_size, "test": args.test_size}, _excluded(args)
    problems = [
        problem for task in tasks for problem in gym.problems_of(task, options[task], sizes, seed, report, exclude)
    ]
    template = read_text(args.template) if args.template else None
    if args.few_shot:
        problems = with_examples(problems, args.few_shot, template, seed)
    report.written = write_splits(args.out, name, problems, template=template or gym.TEMPLATE)
    report.notes.append(
        f"the library scores the answers: give --reward {GYM_REWARD} to rpg score, rpg train, rpg doctor"
    )
    print(*report.lines(), sep="\n")


def build_published(args: argparse.Namespace) -> None:
    """Write the file of a published set."""
    source, file = PUBLISHED[args.name], getattr(args, "from")
    rows = read_file(file) if file else read_hub(source.repository, source.config, source.hub_split)
    _print(build(source, rows, args.out, args.repeat, _excluded(args)))


def build_own(args: argparse.Namespace) -> None:
    """Write NAME_train.parquet and NAME_test.parquet of the user's data, of gsm8k or of math."""
    origin = getattr(args, "from")
    if args.name:
        table = user_data.table_of(WITH_SPLITS[args.name])
        table = replace(table, name=args.files_name or table.name)
    else:
        for flag, value in (("--from", origin), ("--question", args.question), ("--answer", args.answer)):
            if not value:
                raise DataError(f"{flag} is missing; give a NAME, or --from FILE --question COLUMN --answer COLUMN")
        name = args.files_name or Path(origin.removeprefix(user_data.HUB).partition(":")[0]).stem
        table = user_data.Table(name, args.question, args.answer)
    _require_safe(table.name)
    table = replace(
        table,
        question=args.question or table.question,
        answer=args.answer or table.answer,
        data_source=_named(args.data_source, table.name) if args.data_source else table.data_source,
        keep=tuple(dict.fromkeys(args.keep)),
        template=read_text(args.template) if args.template else None,
    )
    report = user_data.build_own(
        table,
        origin or table.hub,
        args.out,
        test_rows=args.test_rows,
        seed=args.seed,
        few_shot=args.few_shot,
        exclude=_excluded(args),
    )
    _print(report)
    source = table.data_source or table.name
    if not is_known(source):
        print(
            f"note: no rule of rpg scores data_source {shown(source)}; train with your own reward function "
            "(rpg score --reward FILE tries it), or build with --data-source MATH or gsm8k for rpg's rules"
        )


def _print(report: Report) -> None:
    """Print a report, with the ground truths that the usual judge does not accept."""
    for path in report.written:
        if fault := try_truths(path).diagnostic():
            report.notes.append(f"{path.name}: {fault}")
    print(*report.lines(), sep="\n")


def _require_safe(name: str) -> None:
    if not SAFE_NAME.fullmatch(name):
        fitting = re.sub(r"[^\w.-]+", "_", name).strip("_") or "mine"
        raise DataError(f"--name {name}: a file name has letters, digits, '.', '_' and '-'; give --name {fitting}")


def _named(source: str, name: str) -> str:
    """Return RULE/NAME for a source with a rule: results are logged by data_source, and two sets stay two."""
    return f"{source}/{name}" if source in OF_SPELLING and source != name else source


def _excluded(args: argparse.Namespace) -> set[bytes]:
    """Return the digests of the problems in the files of --exclude; prints their number per file."""
    exclude: set[bytes] = set()
    for path in args.exclude:
        keys = problem_keys(path)
        print(f"{path}: {len(keys)} problems to keep out")
        exclude |= keys
    return exclude
