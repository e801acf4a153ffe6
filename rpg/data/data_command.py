"""`rpg data build` and `rpg data check`."""

import argparse
import sys
from difflib import get_close_matches
from pathlib import Path

from rpg.data import toy
from rpg.data.build import build, problem_keys
from rpg.data.parquet import Problem, repeated_rows, write_together
from rpg.data.published import SOURCES
from rpg.data.readers import DataError, read_file, read_hub
from rpg.rewards.data_sources import require_gym_task

GYM = "reasoning-gym:"
TOY, TASK, PUBLISHED = "toy", f"{GYM}TASK", "published sets"
# option: (of which sets, its default there); the other sets refuse it
OPTIONS = {
    "settings": ((TASK,), []),
    "from_file": ((PUBLISHED,), None),
    "exclude": ((PUBLISHED, TASK), []),
    "train_size": ((TOY, TASK), 2048),
    "test_size": ((TOY, TASK), 256),
    "seed": ((TOY, TASK), 0),
    "low": ((TOY,), 0),
    "high": ((TOY,), 99),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("build", help="write the parquet file of one problem set").add_argument
    names = ", ".join([TOY, *SOURCES])
    add("name", type=_set, metavar="NAME", help=f"{names}, {TASK} (data/README.md)")
    add("settings", nargs="*", metavar="KEY=VALUE", help=f"{TASK}: its configuration, for example max_terms=4")
    add(
        "--from",
        dest="from_file",
        type=Path,
        metavar="FILE",
        help="published sets: local parquet, JSON, JSONL or CSV file (default: the Hugging Face hub)",
    )
    add("--out", type=Path, default=Path("data"), help="folder to write to (default: data)")
    add("--repeat", type=_positive, metavar="K", help="rows of each problem (default: 32 for aime24, aime25, amc23)")
    add(
        "--exclude",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="not for toy: leave out problems of these files, built or as published (test problems)",
    )
    add("--train-size", type=int, help=f"toy, {TASK}: training problems (default: 2048)")
    add("--test-size", type=int, help=f"toy, {TASK}: test problems (default: 256)")
    add("--seed", type=int, help=f"toy, {TASK}: which problems are drawn (default: 0)")
    add("--low", type=int, help="toy: smallest operand (default: 0)")
    add("--high", type=int, help="toy: largest operand (default: 99)")

    add = actions.add_parser("check", help="say what is wrong with parquet files, by row and column").add_argument
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--tokenizer", metavar="DIR", help="count prompts over --max-prompt-length with it")
    add("--max-prompt-length", type=_positive, metavar="N", help="in tokens, with --tokenizer (default: 2048)")


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
        for option, (kinds, default) in OPTIONS.items():
            value = getattr(args, option)
            if value in (None, []):
                setattr(args, option, default)
            elif kind not in kinds:
                flag = " ".join(value) if option == "settings" else f"--{option.split('_file')[0].replace('_', '-')}"
                raise DataError(f"{flag} is for {' and '.join(kinds)} only; leave it out")
        {TOY: build_toy, TASK: build_gym, PUBLISHED: build_published}[kind](args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"rpg data build {args.name}: {error}", file=sys.stderr)
        return 1
    return 0


def build_toy(args: argparse.Namespace) -> None:
    """Write toy_train.parquet and toy_test.parquet."""
    _refuse_half_a_pair(args, TOY)
    sizes = {"train": args.train_size, "test": args.test_size}
    _write_pair(
        args,
        TOY,
        {split: list(toy.toy_problems(split, args.seed, size, args.low, args.high)) for split, size in sizes.items()},
    )


def build_gym(args: argparse.Namespace) -> None:
    """Write TASK_train.parquet and TASK_test.parquet of one of reasoning-gym's generators."""
    from rpg.data import generated

    task = args.name.removeprefix(GYM)
    _refuse_half_a_pair(args, task)
    settings = generated.settings_of(task, args.settings)
    drawn = generated.draw(task, settings, args.seed, args.test_size, args.train_size, exclude=_excluded(args))
    _write_pair(args, task, {"train": drawn.train, "test": drawn.test})
    for reason, count in drawn.left_out.items():
        print(f"  {count} left out: {reason}")
    if drawn.unanswered:
        print(f"  {drawn.unanswered} have no answer of their own: score_answer judges by what they ask")


def build_published(args: argparse.Namespace) -> None:
    """Write the file of a published set and print what became of its rows."""
    source = SOURCES[args.name]
    rows = (
        read_file(args.from_file)
        if args.from_file
        else read_hub(source.name, source.repository, source.config, source.hub_split)
    )
    report = build(source, rows, args.out, args.repeat, _excluded(args))
    print(f"{args.out / source.file_name}:", *report.lines(), sep="\n")


def _pair(args: argparse.Namespace, name: str) -> dict[str, Path]:
    return {split: args.out / f"{name}_{split}.parquet" for split in ("train", "test")}


def _refuse_half_a_pair(args: argparse.Namespace, name: str) -> None:
    """Raise DataError for sizes that give no pair, and where a file of an earlier pair would stay beside a new one.

    The new problems may be in the old file.
    """
    sizes = {"train": args.train_size, "test": args.test_size}
    if min(sizes.values()) < 0 or not any(sizes.values()):
        given = f"--train-size {args.train_size}, --test-size {args.test_size}"
        raise DataError(f"{given}: give sizes of 0 or more, not both 0")
    for split, path in _pair(args, name).items():
        if not sizes[split] and path.exists():
            raise DataError(
                f"{path} exists, and --{split}-size 0 would leave it beside a file made without it, which may have "
                "the same problems; give another --out, or remove it"
            )


def _write_pair(args: argparse.Namespace, name: str, splits: dict[str, list[Problem]]) -> None:
    """Write the files of both splits, or neither; none for a split of size 0."""
    pair = _pair(args, name)
    files = {pair[split]: repeated_rows(problems, args.repeat or 1) for split, problems in splits.items() if problems}
    for path, rows in write_together(files).items():
        print(f"{path}: {rows} rows")


def _excluded(args: argparse.Namespace) -> set[bytes]:
    """The digests of the problems in the files of --exclude; prints how many each has."""
    exclude: set[bytes] = set()
    for path in args.exclude:
        keys = problem_keys(path)
        print(f"{path}: {len(keys)} problems to keep out")
        exclude |= keys
    return exclude


def _set(text: str) -> str:
    """The name of a set that can be built."""
    known = [TOY, *SOURCES]
    if text.startswith(GYM):
        try:
            require_gym_task(text.removeprefix(GYM))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    elif text not in known:
        near = get_close_matches(text, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise argparse.ArgumentTypeError(f"{text!r} is no set; {hint}one of {', '.join(known)}, {TASK}")
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value
