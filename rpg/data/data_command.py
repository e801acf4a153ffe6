"""`rpg data build` and `rpg data check`."""

import argparse
import re
import sys
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from rpg.data import own, toy
from rpg.data.build import build, problem_keys
from rpg.data.diagnostics import shown
from rpg.data.parquet import Problem, repeated_rows, write_together
from rpg.data.published import SOURCES
from rpg.data.readers import DataError, read_file, read_hub
from rpg.rewards.data_sources import is_known, require_gym_task
from rpg.rewards.own import RewardError, find_reward

GYM = "reasoning-gym:"
TOY, TASK, PUBLISHED, OWN = "toy", f"{GYM}TASK", "published sets", "data of one's own, gsm8k and math"
# option: (of which sets, its default there); the other sets refuse it
OPTIONS = {
    "settings": ((TASK,), []),
    "from_file": ((PUBLISHED, OWN), None),
    "exclude": ((PUBLISHED, TASK, OWN), []),
    "repeat": ((PUBLISHED, TASK, TOY), None),
    "train_size": ((TOY, TASK), 2048),
    "test_size": ((TOY, TASK), 256),
    "seed": ((TOY, TASK, OWN), 0),
    "low": ((TOY,), 0),
    "high": ((TOY,), 99),
    "question": ((OWN,), None),
    "answer": ((OWN,), None),
    "dataset_name": ((OWN,), None),
    "data_source": ((OWN,), None),
    "template": ((OWN,), None),
    "keep": ((OWN,), []),
    "test_share": ((OWN,), None),
    "test_rows": ((OWN,), None),
}
SAFE_NAME = re.compile(r"[\w.-]+")
FLAGS = {"from_file": "--from", "dataset_name": "--name"}  # the others are named as their options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build_parser = actions.add_parser("build", help="write the parquet files of one problem set, or of your own data")
    build_parser.epilog = "example: rpg data build --from mine.csv --question Q --answer A --name mine --test-rows 200"
    add = build_parser.add_argument
    names = ", ".join([TOY, *SOURCES, *own.TABLES])
    add("name", nargs="?", type=_set, metavar="NAME", help=f"{names}, {TASK} (data/README.md); none for your own data")
    add("settings", nargs="*", metavar="KEY=VALUE", help=f"{TASK}: its configuration, for example max_terms=4")
    add(
        "--from",
        dest="from_file",
        metavar="FILE",
        help="parquet, JSONL, JSON or CSV file; your own data, gsm8k and math: also a folder with files train* and "
        "test*, or hub:NAME[:CONFIG] (default for a NAME: its place on the Hugging Face hub)",
    )
    add("--question", metavar="COLUMN", help="your own data: column of the question")
    add("--answer", metavar="COLUMN", help="your own data: column of the answer")
    add("--name", dest="dataset_name", metavar="NAME", help="your own data: name of the files (default: the file's)")
    add("--data-source", metavar="NAME", help="your own data: data_source of the rows (default: the name)")
    add(
        "--template",
        type=Path,
        metavar="FILE",
        help="your own data: text with {question} (default: the paper's prompt)",
    )
    add("--keep", nargs="+", metavar="COLUMN", help="your own data: columns that your reward function reads")
    split = build_parser.add_mutually_exclusive_group().add_argument
    split(
        "--test-share", type=float, metavar="X", help="your own data without a test split: share drawn (default: 0.1)"
    )
    split("--test-rows", type=int, metavar="N", help="your own data without a test split: rows drawn")
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
    add("--seed", type=int, help=f"toy, {TASK}, your own data: which problems are drawn (default: 0)")
    add("--low", type=int, help="toy: smallest operand (default: 0)")
    add("--high", type=int, help="toy: largest operand (default: 99)")

    add = actions.add_parser("check", help="say what is wrong with parquet files, by row and column").add_argument
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--json", action="store_true", help="what is wrong as JSON")
    add("--tokenizer", metavar="DIR", help="count prompts over --max-prompt-length with it")
    add("--reward", type=Path, metavar="FILE", help="your reward function scores the rows: rpg's rules are not asked")
    add("--max-prompt-length", type=_positive, metavar="N", help="in tokens, with --tokenizer (default: 2048)")


def run(args: argparse.Namespace) -> int:
    """Carry out the parsed command; 0 where it succeeded, 1 where not."""
    if args.action == "check":
        from rpg.data.check import MAX_PROMPT_LENGTH, check_files

        if args.max_prompt_length and not args.tokenizer:
            print("rpg data check: --max-prompt-length counts tokens; give --tokenizer DIR with it", file=sys.stderr)
            return 2
        if args.reward:
            try:
                find_reward(args.reward)
            except RewardError as error:
                print(f"rpg data check: --reward {error}", file=sys.stderr)
                return 2
        length = args.max_prompt_length or MAX_PROMPT_LENGTH
        return check_files(args.files, args.tokenizer, length, args.reward is not None, args.json)
    try:
        kind = kind_of(args.name)
        for option, (kinds, default) in OPTIONS.items():
            value = getattr(args, option)
            if value in (None, []):
                setattr(args, option, default)
            elif kind not in kinds:
                flag = " ".join(value) if option == "settings" else FLAGS.get(option, f"--{option.replace('_', '-')}")
                raise DataError(f"{flag} is for {' and '.join(kinds)} only; leave it out")
        {TOY: build_toy, TASK: build_gym, PUBLISHED: build_published, OWN: build_own}[kind](args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"rpg data build{f' {args.name}' if args.name else ''}: {error}", file=sys.stderr)
        return 2
    return 0


def kind_of(name: str | None) -> str:
    """Which kind of set a NAME stands for."""
    if name is None or name in own.TABLES:
        return OWN
    return TASK if name.startswith(GYM) else TOY if name == TOY else PUBLISHED


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


def build_own(args: argparse.Namespace) -> None:
    """Write NAME_train.parquet and NAME_test.parquet of the user's data, of gsm8k or of math."""
    table = own.TABLES.get(args.name) or own_table(args)
    table = replace(
        table,
        question=args.question or table.question,
        answer=args.answer or table.answer,
        data_source=args.data_source or table.data_source,
        keep=tuple(args.keep),
        template=args.template.read_text(encoding="utf-8") if args.template else None,
    )
    built = own.build_own(
        table,
        args.from_file or table.hub,
        args.out,
        test_rows=args.test_rows,
        test_share=args.test_share,
        seed=args.seed,
        exclude=_excluded(args),
    )
    print(*built.lines(), sep="\n")
    source = table.data_source or table.name
    if not is_known(source):
        print(
            f"note: no rule of rpg scores data_source {shown(source)}; train with your own reward function "
            "(rpg score --reward FILE tries it), or build with --data-source MATH or gsm8k for rpg's rules"
        )


def own_table(args: argparse.Namespace) -> own.Table:
    """The table that the options describe; raises DataError where one is missing."""
    for flag, value in (("--from", args.from_file), ("--question", args.question), ("--answer", args.answer)):
        if not value:
            raise DataError(f"{flag} is missing; give a NAME, or --from FILE --question COLUMN --answer COLUMN")
    name = args.dataset_name or Path(args.from_file.removeprefix(own.HUB).partition(":")[0]).stem
    if not SAFE_NAME.fullmatch(name):
        raise DataError(f"--name {name}: becomes a file name; give letters, digits, '.', '_' and '-'")
    return own.Table(name, args.question, args.answer)


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
    known = [TOY, *SOURCES, *own.TABLES]
    if text.startswith(GYM):
        try:
            require_gym_task(text.removeprefix(GYM))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    elif text not in known:
        near = get_close_matches(text, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise argparse.ArgumentTypeError(
            f"{text!r} is no set; {hint}one of {', '.join(known)}, {TASK}; for "
            "your own data give --from FILE --question COLUMN --answer COLUMN --name NAME"
        )
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value
