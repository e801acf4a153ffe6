"""`rpg data build` and `rpg data check`."""

import argparse
import sys
from difflib import get_close_matches
from pathlib import Path

from rpg.data import toy
from rpg.data.build import build, problem_keys
from rpg.data.readers import DataError, read_file, read_hub
from rpg.data.schema import Problem, repeated_rows, write_together
from rpg.data.sources import SOURCES
from rpg.rewards.data_sources import require_gym_task

GYM = "reasoning-gym:"
DEFAULTS = {"train_size": 2048, "test_size": 256, "seed": 0, "low": 0, "high": 99}
TOY, TASK, PUBLISHED = "toy", f"{GYM}TASK", "published sets"
OPTIONS = {  # whose they are; the other sets refuse them
    "from_file": ("--from", (PUBLISHED,)),
    "exclude": ("--exclude", (PUBLISHED, TASK)),
    "train_size": ("--train-size", (TOY, TASK)),
    "test_size": ("--test-size", (TOY, TASK)),
    "seed": ("--seed", (TOY, TASK)),
    "low": ("--low", (TOY,)),
    "high": ("--high", (TOY,)),
}


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
        metavar="FILE",
        help="leave out problems that stand in these files, built or as published: test problems do not belong in "
        "training (not for toy)",
    )
    group = build_parser.add_argument_group("what is generated: toy, reasoning-gym")
    group.add_argument("--train-size", type=int, help="training problems (default: 2048)")
    group.add_argument("--test-size", type=int, help="test problems (default: 256)")
    group.add_argument("--seed", type=int, help="which problems are drawn (default: 0)")
    group.add_argument("--low", type=int, help="toy: smallest operand (default: 0)")
    group.add_argument("--high", type=int, help="toy: largest operand (default: 99)")

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
        kind = TASK if args.name.startswith(GYM) else TOY if args.name == TOY else PUBLISHED
        _refuse_options_of_others(args, kind)
        for name, value in DEFAULTS.items():
            if getattr(args, name) is None:
                setattr(args, name, value)
        return {TOY: build_toy, TASK: build_gym, PUBLISHED: build_published}[kind](args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"rpg data build {args.name}: {error}", file=sys.stderr)
        return 1


def build_toy(args: argparse.Namespace) -> int:
    """Write toy_train.parquet and toy_test.parquet."""
    _refuse_half_a_pair(args, TOY)
    train, test = (
        list(toy.toy_problems(split, args.seed, size, args.low, args.high))
        for split, size in (("train", args.train_size), ("test", args.test_size))
    )
    _write_pair(args, TOY, train, test)
    return 0


def build_gym(args: argparse.Namespace) -> int:
    """Write TASK_train.parquet and TASK_test.parquet of one of reasoning-gym's generators."""
    from rpg.data import gym

    task = args.name.removeprefix(GYM)
    _refuse_half_a_pair(args, task)
    settings = gym.settings_of(task, args.settings)
    exclude = _excluded(args)
    drawn = gym.draw(task, settings, args.seed, args.test_size, args.train_size, exclude=exclude)
    _write_pair(args, task, drawn.train, drawn.test)
    for reason, count in drawn.left_out.items():
        print(f"  {count} left out: {reason}")
    if drawn.unanswered:
        print(f"  {drawn.unanswered} have no answer of their own: score_answer judges by what they ask")
    return 0


def build_published(args: argparse.Namespace) -> int:
    """Write the file of a published set and print what became of its rows."""
    source = SOURCES[args.name]
    rows = read_file(args.from_file) if args.from_file else read_hub(source)
    report = build(source, rows, args.out, args.repeat, _excluded(args))
    print(f"{args.out / source.file_name}:", *report.lines(), sep="\n")
    return 0


def _refuse_options_of_others(args: argparse.Namespace, kind: str) -> None:
    """Raise DataError for an option that was given and means nothing for this kind of set."""
    if args.settings and kind != TASK:
        raise DataError(f"{' '.join(args.settings)}: settings are for {TASK}; leave them out")
    for name, (option, kinds) in OPTIONS.items():
        if getattr(args, name) is not None and kind not in kinds:
            raise DataError(f"{option} is for {' and '.join(kinds)} alone; leave it out")


def _pair(args: argparse.Namespace, name: str) -> dict[str, Path]:
    return {split: args.out / f"{name}_{split}.parquet" for split in ("train", "test")}


def _refuse_half_a_pair(args: argparse.Namespace, name: str) -> None:
    """Raise DataError for sizes that give no pair, and where a file of an earlier pair would stay beside a new one.

    The problems of the one may stand in the other.
    """
    sizes = {"train": args.train_size, "test": args.test_size}
    if min(sizes.values()) < 0 or not any(sizes.values()):
        raise DataError(
            f"--train-size {args.train_size}, --test-size {args.test_size}: give sizes of 0 or more, not both 0"
        )
    for split, path in _pair(args, name).items():
        if not sizes[split] and path.exists():
            raise DataError(
                f"{path} is there already, and with --{split}-size 0 it would stay beside a file made without it, "
                "which may hold its problems; give another --out, or remove it"
            )


def _write_pair(args: argparse.Namespace, name: str, train: list[Problem], test: list[Problem]) -> None:
    """Write the files of both splits, or neither; none for a split of size 0."""
    pair = _pair(args, name)
    splits = {pair["train"]: train, pair["test"]: test}
    files = {path: repeated_rows(problems, args.repeat or 1) for path, problems in splits.items() if problems}
    for path, rows in write_together(files).items():
        print(f"{path}: {rows} rows")


def _excluded(args: argparse.Namespace) -> set[bytes]:
    """The digests of the problems in the files of --exclude; prints how many each holds."""
    exclude: set[bytes] = set()
    for path in args.exclude or []:
        keys = problem_keys(path)
        print(f"{path}: {len(keys)} problems to keep out")
        exclude |= keys
    return exclude


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
