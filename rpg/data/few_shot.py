"""Prompts of solved examples, for a model that continues text and does not follow instructions: `--few-shot K`."""

import random
from collections.abc import Sequence
from dataclasses import replace

from rpg.data.parquet import Problem
from rpg.data.template import QUESTION
from rpg.diagnostics import UserError
from rpg.rewards.extract import ANSWER_END, few_shot_answer

ANSWER = "{answer}"
TEMPLATE = f"{QUESTION}\nAnswer: {ANSWER}\n\n"


def with_examples(problems: Sequence[Problem], count: int, template: str | None, seed: int) -> list[Problem]:
    """Return the problems with `count` solved ones before each, all from the training split.

    template: an example, with {question} and {answer}; what follows the answer (default: a line end) ends it. The
    prompt ends before the answer. `seed` draws the examples.

    Raises UserError for a template without both, for too few training problems, and for an answer that contains its
    end: no response would be read as it.
    """
    before, answer, end = (TEMPLATE if template is None else template).partition(ANSWER)
    if before.count(QUESTION) != 1 or not answer:
        raise UserError(f"--template: with --few-shot it is an example; write {QUESTION} once and {ANSWER} after it")
    begin, _, middle = before.partition(QUESTION)
    end = end or "\n"
    pool = [problem for problem in problems if problem.split == "train"]
    if len(pool) <= count:
        raise UserError(f"--few-shot {count}: it needs more than {count} training problems, and there are {len(pool)}")
    drawn, generator = [], random.Random(seed)
    for problem in problems:
        if problem.ground_truth is None:
            raise UserError(f"--few-shot {count}: {problem.data_source} has no answers to show; leave it out")
        if few_shot_answer(problem.ground_truth + end, {ANSWER_END: end}) != problem.ground_truth.strip():
            what = f"the answer {problem.ground_truth!r:.60} contains {end!r}, which ends an answer"
            raise UserError(f"--template: {what}; write another text after {ANSWER}")
        # one more than needed, because the problem itself may be among them
        examples = [other for other in generator.sample(pool, count + 1) if other is not problem][:count]
        solved = "".join(f"{begin}{other.text}{middle}{other.ground_truth}{end}" for other in examples)
        prompt = f"{solved}{begin}{problem.text}{middle}".rstrip()
        drawn.append(replace(problem, prompt=prompt, columns={**problem.columns, ANSWER_END: end}))
    return drawn
