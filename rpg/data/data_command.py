"""`rpg data build` and `rpg data check`."""

import argparse
import re
import sys
from pathlib import Path

from rpg.arguments import at_least
from rpg.data import tables, toy
from rpg.data.build import SPLITS, Report, write_splits
from rpg.data.check import GYM_REWARD, check_files
from rpg.data.few_shot import with_examples
from rpg.data.published import problem_keys
from rpg.data.readers import HUB, DataError, read_text
from rpg.data.truths import try_truths
from rpg.diagnostics import shown
from rpg.registry.datasets import GYM, OF_SPELLING, PUBLISHED, WITH_SPLITS
from rpg.rewards import JUDGES, is_known
from rpg.rewards.user_function import reward_file

SETS = {**PUBLISHED, **WITH_SPLITS}
TOY, TABLES, GENERATED = "toy", "published sets and --from", f"toy and {GYM}"
OWN = "for your own data give --from FILE --question COLUMN --answer COLUMN --name NAME"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_build(actions.add_parser("build", help="write the parquet files of a problem set, or of your own data"))
    add = (
        check := actions.add_parser("check", help="say what is wrong with parquet files, by row and column")
    ).add_argument
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--model", metavar="DIR", help="count the tokens of prompts as this model reads them")
    add(
        "--max-prompt-length",
        type=at_least(1),
        default=2048,
        metavar="N",
        help="in tokens, with --model (default: 2048)",
    )
    scorer = check.add_mutually_exclusive_group()
    scorer.add_argument("--judge", choices=JUDGES, default=JUDGES[0],
                        help="tried on the answers; docs/judges.md (default: as a run's, release)")  # fmt: skip
    scorer.add_argument("--reward", metavar="FILE", help="your reward function: rpg's rules on answers are off")


def _configure_build(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: rpg data build --from mine.csv --question Q --answer A --name mine --test-rows 200"
    add, names = parser.add_argument, ", ".join((TOY, *SETS, f"{GYM}:TASK[,TASK...]"))
    add("name", nargs="?", metavar="NAME", help=f"{names} (data/README.md); none for your own data")
    add("--out", type=lambda text: Path(text).expanduser().absolute(), default=Path("data"),
        help="folder to write to (default: data)")  # fmt: skip
    add("--name", dest="files_name", help="name of the files (default: that of --from, of the set, or of the task)")
    add("--template", metavar="FILE", type=Path, help="text with {question} (default: the paper's prompt, or "
        "reasoning-gym's); with --few-shot an example, with {question} and {answer}")  # fmt: skip
    add("--few-shot", metavar="K", type=at_least(1), default=0,
        help="put K solved training problems in front of each, for a base model")  # fmt: skip
    add("--exclude", metavar="FILE", nargs="+", type=Path, default=[],
        help="leave out the problems of these files, built or as published")  # fmt: skip
    add("--repeat", metavar="K", type=at_least(1), help="rows of each problem (default: the set's, data/README.md)")
    add("--seed", type=int, default=0, help="selects the problems that are drawn (default: 0)")
    add = parser.add_argument_group(TABLES).add_argument
    add("--from", dest="origin", metavar="FILE", help="a parquet, JSON, JSONL or CSV file (.gz too), a folder of them "
        f"or of save_to_disk, or {HUB}OWNER/NAME[:CONFIG]")  # fmt: skip
    add("--question", metavar="COLUMN", help="column of the question; COLUMN.FIELD: a field of it")
    add("--answer", metavar="COLUMN", help="column of the answer")
    add("--data-source", metavar="NAME", help="MATH or gsm8k: rpg's verifier scores the rows by that rule, as "
        "data_source MATH/NAME; else their data_source (default: the name)")  # fmt: skip
    add("--keep", metavar="COLUMN", nargs="+", help="columns that your reward function reads")
    add("--test-rows", metavar="N", type=at_least(0),
        help="rows drawn for the test file if there is no test split (default: one in ten)")  # fmt: skip
    add = parser.add_argument_group(GENERATED).add_argument
    add("--train-size", type=at_least(0), help="training problems a task (default: 2048)")
    add("--test-size", type=at_least(0), help="test problems a task (default: 256)")
    add("--set", metavar="KEY=VALUE", nargs="+", action="extend", dest="settings",
        help=f"options of {GYM}'s task; of one of several tasks: TASK.KEY=VALUE")  # fmt: skip
    parser.set_defaults(groups={group.title: group for group in parser._action_groups})


def run(args: argparse.Namespace) -> int:
    """Run the parsed command; return 0 on success, 1 if files have errors, 2 if it was rejected."""
    try:
        if args.action == "check":
            return _check(args)
        is_generated = args.name is not None and args.name.partition(":")[0] in (TOY, GYM)
        for action in args.groups[TABLES if is_generated else GENERATED]._group_actions:
            if getattr(args, action.dest) is not None:
                raise DataError(f"{action.option_strings[0]} is not for {args.name or '--from'}; leave it out")
        template = read_text(args.template) if args.template else None
        (build_generated if is_generated else build_table)(args, template)
    except BrokenPipeError:  # `| head`: cli.py ends quietly
        raise
    except (ValueError, OSError, ModuleNotFoundError) as error:
        name = f" {args.name}" if args.action == "build" and args.name else ""
        print(f"rpg data {args.action}{name}: {error}", file=sys.stderr)
        return 2
    return 0


def _check(args: argparse.Namespace) -> int:
    if args.model and not Path(args.model).expanduser().is_dir():
        raise DataError(f"--model {args.model}: no such directory; give the model's")
    if args.reward:
        reward_file(args.reward)
    return check_files(args.files, args.model, args.max_prompt_length, None if args.reward else args.judge)


def build_generated(args: argparse.Namespace, template: str | None) -> None:
    """Write NAME_train.parquet and NAME_test.parquet of the toy task or of tasks of reasoning-gym."""
    sizes = {"train": 2048 if args.train_size is None else args.train_size,
             "test": 256 if args.test_size is None else args.test_size}  # fmt: skip
    report = Report()
    if args.name == TOY:
        if args.settings:
            raise DataError(f"--set is for {GYM}; leave it out")
        name, default = args.files_name or TOY, None
        problems = [problem for split in SPLITS for problem in toy.toy_problems(split, args.seed, sizes[split])]
    else:
        from rpg.data import gym  # imports the library

        tasks = gym.tasks_of(args.name)
        name, default = args.files_name or (tasks[0] if len(tasks) == 1 else GYM), gym.TEMPLATE
        options, exclude = gym.options_of(tasks, args.settings or []), _excluded(args)
        problems = [
            problem
            for task in tasks
            for problem in gym.problems_of(task, options[task], sizes, args.seed, report, exclude)
        ]
        report.notes.append(f"the library scores the answers: give --reward {GYM_REWARD} to rpg score, train, doctor")
    _require_safe(name)
    if args.few_shot:
        problems = with_examples(problems, args.few_shot, template, args.seed)
    report.written = write_splits(args.out, name, problems, repeat=args.repeat or 1, template=template or default)
    print(*report.lines(), sep="\n")


def build_table(args: argparse.Namespace, template: str | None) -> None:
    """Write the files of a published set or of the user's table."""
    source = SETS.get(args.name)
    if args.name and not source:
        raise DataError(f"{args.name!r} is not a set; one of {', '.join((TOY, *SETS))}; {OWN}")
    for option, value in (("--from", args.origin), ("--question", args.question), ("--answer", args.answer)):
        if not source and not value:
            raise DataError(f"{option} is missing; give a NAME, or --from FILE --question COLUMN --answer COLUMN")
    origin = args.origin or (tables.hub_of(source) if source else "")
    name = args.files_name or (source.name if source else Path(origin.removeprefix(HUB).partition(":")[0]).name)
    name = name if args.files_name or source else re.sub(r"\.(gz|parquet|jsonl?|csv|tsv)(?=\.|$)", "", name)
    _require_safe(name)
    data_source = args.data_source or (source.data_source if source else name)
    if args.data_source in OF_SPELLING and args.data_source != name:
        data_source = f"{args.data_source}/{name}"  # results are logged by data_source, and two sets stay two
    keep, repeat = tuple(dict.fromkeys(args.keep or ())), args.repeat or (source.repeat if source else 1)
    columns = args.question or "", args.answer or ""
    table = tables.Table(name, origin, data_source, *columns, source, keep, template, args.few_shot, repeat)
    report = tables.build(table, args.out, args.test_rows, args.seed, _excluded(args))
    for path in report.written:
        if fault := try_truths(path).diagnostic():
            report.notes.append(f"{path.name}: {fault}")
    if not is_known(data_source):
        report.notes.append(
            f"no rule of rpg scores data_source {shown(data_source)}; train with your own reward function (rpg score "
            "--reward FILE tries it), or build with --data-source MATH or gsm8k for rpg's rules"
        )
    print(*report.lines(), sep="\n")


def _require_safe(name: str) -> None:
    if not re.fullmatch(r"\w[\w.-]*", name):
        fitting = re.sub(r"[^\w.-]+", "_", name).strip("_") or "mine"
        raise DataError(f"--name {name}: a file name has letters, digits, '.', '_' and '-'; give --name {fitting}")


def _excluded(args: argparse.Namespace) -> set[bytes]:
    """Return the digests of the problems in the files of --exclude; prints their number per file."""
    exclude: set[bytes] = set()
    for path in args.exclude:
        keys = problem_keys(path)
        print(f"{path}: {len(keys)} problems to keep out")
        exclude |= keys
    return exclude
