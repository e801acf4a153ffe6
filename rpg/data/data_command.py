"""`rpg data build` and `rpg data check`."""

import argparse
import sys
from difflib import get_close_matches
from pathlib import Path

from rpg.data import toy
from rpg.data.build import build, problem_keys
from rpg.data.readers import DataError, read_file, read_hub
from rpg.data.schema import repeated_rows, write_parquet
from rpg.data.sources import SOURCES
from rpg.rewards.sources import require_gym_task

GYM = "reasoning-gym:"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build_parser = actions.add_parser("build", help="write the parquet file of one problem set")
    build_parser.add_argument(
        "name", type=_set, metavar="NAME", help=", ".join(["toy", *SOURCES]) + f", {GYM}TASK (data/README.md)"
    )
    build_parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help=f"of {GYM}TASK: its configuration, for example max_terms=4"
    )
    build_parser.add_argument(
        "--from",
        dest="from_file",
        type=Path,
        metavar="FILE",
        help="local parquet, JSON or JSONL file of the set (default: the Hugging Face hub)",
    )
    build_parser.add_argument("--out", type=Path, default=Path("data"), help="folder to write to (default: data)")
    build_parser.add_argument(
        "--repeat",
        type=_positive,
        metavar="K",
        help="write each problem K times (default: 32 for aime24, aime25 and amc23, else 1)",
    )
    build_parser.add_argument(
        "--exclude",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="leave out problems that stand in these files, built or as published: test problems do not belong in "
        "training",
    )
    group = build_parser.add_argument_group("what is generated: toy, reasoning-gym")
    group.add_argument("--train-size", type=int, default=2048, help="training problems (default: 2048)")
    group.add_argument("--test-size", type=int, default=256, help="test problems (default: 256)")
    group.add_argument("--seed", type=int, default=0, help="which problems are drawn (default: 0)")
    group.add_argument("--low", type=int, default=0, help="toy: smallest operand (default: 0)")
    group.add_argument("--high", type=int, default=99, help="toy: largest operand (default: 99)")

    check_parser = actions.add_parser("check", help="say what is wrong with parquet files, by row and column")
    check_parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check_parser.add_argument("--tokenizer", metavar="DIR", help="count prompts over --max-prompt-length with it")
    check_parser.add_argument(
        "--max-prompt-length", type=_positive, metavar="N", help="in tokens, with --tokenizer (default: 2048)"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the parsed command; 0 where it succeeded, 1 where not."""
    if args.action == "check":
        from rpg.data.check import MAX_PROMPT_LENGTH, check_files

        if args.max_prompt_length and not args.tokenizer:
            print("rpg data check: --max-prompt-length counts tokens; give --tokenizer DIR with it", file=sys.stderr)
            return 1
        return check_files(args.files, args.tokenizer, args.max_prompt_length or MAX_PROMPT_LENGTH)
    try:
        if args.name.startswith(GYM):
            return build_gym(args)
        if args.settings:
            raise DataError(f"{' '.join(args.settings)}: settings are for {GYM}TASK; leave them out")
        return build_toy(args) if args.name == "toy" else build_published(args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"rpg data build {args.name}: {error}", file=sys.stderr)
        return 1


def build_toy(args: argparse.Namespace) -> int:
    """Write toy_train.parquet and toy_test.parquet."""
    if args.from_file or args.exclude:
        raise DataError("the toy task is generated with separate splits; leave --from and --exclude out")
    for split, size in (("train", args.train_size), ("test", args.test_size)):
        problems = toy.toy_problems(split, args.seed, size, args.low, args.high)
        path = args.out / f"toy_{split}.parquet"
        rows = write_parquet(repeated_rows(problems, args.repeat or 1), path)
        print(f"{path}: {rows} rows")
    return 0


def build_gym(args: argparse.Namespace) -> int:
    """Write TASK_train.parquet and TASK_test.parquet of one of reasoning-gym's generators."""
    from rpg.data import gym

    task = args.name.removeprefix(GYM)
    if args.from_file or args.exclude:
        raise DataError("the problems are generated with separate splits; leave --from and --exclude out")
    if min(args.train_size, args.test_size) < 0 or args.train_size + args.test_size < 1:
        raise DataError(f"--train-size {args.train_size}, --test-size {args.test_size}: give sizes of 0 or more")
    settings = gym.settings_of(task, args.settings)
    drawn = gym.draw(task, settings, args.seed, args.test_size, args.train_size)
    for split, problems in (("train", drawn.train), ("test", drawn.test)):
        if problems:
            path = args.out / f"{task}_{split}.parquet"
            rows = write_parquet(repeated_rows(problems, args.repeat or 1), path)
            print(f"{path}: {rows} rows")
    for reason, count in drawn.left_out.items():
        print(f"  {count} left out: {reason}")
    if drawn.unanswered:
        print(f"  {drawn.unanswered} have no answer of their own: score_answer judges by what they ask")
    return 0


def build_published(args: argparse.Namespace) -> int:
    """Write the file of a published set and print what became of its rows."""
    source = SOURCES[args.name]
    rows = read_file(args.from_file) if args.from_file else read_hub(source)
    exclude: set[bytes] = set()
    for path in args.exclude:
        keys = problem_keys(path)
        print(f"{path}: {len(keys)} problems to keep out")
        exclude |= keys
    report = build(source, rows, args.out, args.repeat, exclude)
    print(f"{args.out / source.file_name}:", *report.lines(), sep="\n")
    return 0


def _set(text: str) -> str:
    """The name of a set that can be built."""
    known = ["toy", *SOURCES]
    if text.startswith(GYM):
        try:
            require_gym_task(text.removeprefix(GYM))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    elif text not in known:
        near = get_close_matches(text, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise argparse.ArgumentTypeError(f"{text!r} is no set; {hint}one of {', '.join(known)}, {GYM}TASK")
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value
