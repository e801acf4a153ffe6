"""`rpg data build` and `rpg data check`."""

import argparse
import random
import re
from dataclasses import replace
from pathlib import Path

from rpg.arguments import at_least
from rpg.data import tables
from rpg.data.check import check_files, score_remedy
from rpg.data.few_shot import with_examples
from rpg.data.parquet import write_set
from rpg.data.readers import HUB
from rpg.data.template import QUESTION
from rpg.diagnostics import UserError, shown
from rpg.overrides import key_of, parse
from rpg.registry.datasets import GYM, PUBLISHED, DataSet, named
from rpg.rewards import JUDGES, is_known
from rpg.rewards.user_reward import reward_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="write the parquet files of a problem set, or of your own data")
    build.epilog = "example: rpg data build --from mine.csv --question Q --answer A --name mine --test-size 200"
    add, names = build.add_argument, ", ".join((*PUBLISHED, f"{GYM}:TASK"))
    add("set_name", nargs="?", metavar="NAME", help=f"{names} (data/README.md); leave it out for your own data")
    add("--from", dest="origin", metavar="FILE", help="a parquet, JSON, JSONL or CSV file (.gz too), a folder of them "
        f"or one of save_to_disk, or {HUB}OWNER/NAME[:CONFIG] (default: the set on the hub)")  # fmt: skip
    add("--question", metavar="COLUMN", help="column of the question (default: the set's)")
    add("--answer", metavar="COLUMN", help="column of the answer (default: the set's)")
    add("--data-source", metavar="NAME", help="MATH or gsm8k: score the rows by that rule of rpg, as data_source "
        "MATH/NAME; another text is their data_source (default: the name)")  # fmt: skip
    add("--keep", metavar="COLUMN", nargs="+", default=[], help="columns to copy to extra_info, which a reward gets")
    add("--set", metavar="KEY=VALUE", nargs="+", action="extend", dest="options", default=[], help=f"options of {GYM}")
    add("--train-size", metavar="N", type=at_least(0), help=f"number of training problems (default: all; {GYM}: 2048)")
    add("--test-size", "--test-rows", metavar="N", type=at_least(0),
        help=f"number of test problems (default: the test split, else one in ten; {GYM}: 256)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="seed of drawn problems and examples (default: 0)")
    add("--exclude", metavar="FILE", nargs="+", type=Path, default=[], help="built files whose problems to leave out")
    add("--template", metavar="FILE", type=Path, help="text with {question} (default: the paper's prompt, or "
        "reasoning-gym's); with --few-shot: an example with {question} and {answer}")  # fmt: skip
    add("--few-shot", metavar="K", type=at_least(1), default=0,
        help="begin each prompt with K solved training problems, for a base model")  # fmt: skip
    add("--out", type=lambda text: Path(text).expanduser().absolute(), default=Path("data"),
        metavar="DIR", help="folder to write to (default: data)")  # fmt: skip
    add("--name", help="name of the files (default: of the set, the task or --from)")
    check = actions.add_parser("check", help="say what is wrong with parquet files, by row and column")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help="parquet file in verl's schema")
    for checked in (build, check):
        checked.add_argument("--model", help="count the tokens of the prompts with its tokenizer and template")
        judge = "judge (docs/judges.md) that must accept the stated answers (default: release)"
        checked.add_argument("--judge", choices=JUDGES, default=JUDGES[0], help=judge)
    check.add_argument("--reward", metavar="FILE", help="the run's reward: data_source and answers are not checked")


def run(args: argparse.Namespace) -> int:
    """Run the parsed command; return 0 on success, 1 if files have errors."""
    if args.action == "build":
        files, is_scored = build(args)
    else:
        files, is_scored = args.files, not (args.reward and reward_file(args.reward))
    return check_files(files, args.model, args.judge if is_scored else None)


def build(args: argparse.Namespace) -> tuple[list[Path], bool]:
    """Write the files, all or none; return them, and whether a rule of rpg scores their rows."""
    kind, _, task = (args.set_name or "").partition(":")
    template = args.template.read_text(encoding="utf-8-sig") if args.template else None
    sizes = {"test": args.test_size, "train": args.train_size}
    of_tables = {"--from": args.origin, "--question": args.question, "--answer": args.answer, "--keep": args.keep,
                 "--data-source": args.data_source}  # fmt: skip
    if unused := [flag for flag, value in (of_tables if kind == GYM else {"--set": args.options}).items() if value]:
        raise UserError(f"{', '.join(unused)}: without effect on {args.set_name or args.origin}; leave it out")
    exclude = {key for path in args.exclude for key in tables.problem_keys(path)}
    if kind == GYM:
        if not is_known(GYM):
            raise UserError(f"{args.set_name}: {score_remedy(GYM)}")
        from rpg.data import gym  # imports the library

        source = DataSet(task, "expression", split="both")
        options = {key_of(text): parse(text).value() for text in args.options}
        available = gym.problems_of(task, options, sizes, args.seed, exclude)
        template = template if template or args.few_shot else gym.TEMPLATE
    else:
        source = table(args)
        origin = args.origin or HUB + ":".join(filter(None, (source.repository, source.config)))
        available = tables.problems_of(source, origin, args.keep, args.test_size, args.seed, exclude)
    problems = []
    for split, size in sizes.items():
        of_split = [problem for problem in available if problem.split == split]
        drawn = random.Random(args.seed).sample(range(len(of_split)), len(of_split[:size]))
        problems += [of_split[n] for n in sorted(drawn)]
    if not problems:
        what = f"{args.origin or args.set_name}: no problem to write"
        raise UserError(f"{what}; give other rows or columns, or raise --train-size or --test-size")
    if args.few_shot:
        problems = with_examples(problems, args.few_shot, template, args.seed)
    elif template is not None and template.count(QUESTION) != 1:
        raise UserError(f"--template: has {QUESTION} {template.count(QUESTION)} times; write it exactly once")
    written = write_set(args.out, replace(source, name=args.name or source.name), problems, template)
    source_name = problems[0].data_source
    if not is_known(source_name):
        print(f"note: no rule of rpg scores data_source {shown(source_name)}; {score_remedy(source_name)}")
    return written, is_known(source_name)


def table(args: argparse.Namespace) -> DataSet:
    """Return the published set or the user's table, with the columns and the data_source of the options."""
    if args.set_name not in PUBLISHED and (args.set_name or not (args.origin and args.question and args.answer)):
        own = "--from FILE --question COLUMN --answer COLUMN --name NAME"
        raise UserError(f"{args.set_name or 'no set'}: give one of {', '.join(PUBLISHED)}, or for your own data {own}")
    of_file = re.split("[.:]", Path((args.origin or "").removeprefix(HUB)).name)[0]
    # a user's own answers need not be integers or boxed
    source = PUBLISHED.get(args.set_name) or DataSet(args.name or of_file, "expression", split="both")
    if not (args.set_name or args.data_source) and named(source.name):
        raise UserError(f"--name {source.name}: is a benchmark; give another name, or --data-source {source.name}")
    source = replace(source, question=args.question or source.question, answer=args.answer or source.answer)
    if rule := named(args.data_source or ""):  # results are logged by data_source, and two sets stay two
        name = args.name or source.name
        is_published = args.set_name == name == rule.name
        return replace(source, written=rule.data_source if is_published else f"{rule.data_source}/{name}")
    return replace(source, written=args.data_source or source.written)
