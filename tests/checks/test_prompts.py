"""Prompts before a run: none is cut unasked, and the chat template takes each; read as verl reads them."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset

from rpg.checks import data
from rpg.data.parquet import SCHEMA, Problem, make_row
from rpg.diagnostics import Diagnostic
from tests.builders.toy_run import run_config

MODEL = "actor_rollout_ref.model"
TEMPLATE, ARGUMENTS = f"{MODEL}.custom_chat_template", "data.apply_chat_template_kwargs"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
ARGUMENT = "{% for m in messages %}{{ m.content }}{% endfor %}{% if long %} a b c d e f g h{% endif %}"


def words(*counts: int) -> list[list[dict[str, str]]]:
    """Return prompts of so many tokens, two of them the template's "<user>" (in the toy tokenizer <, user, >)."""
    return [[{"role": "user", "content": " ".join(["w"] * (count - 3))}] for count in counts]


def found(toy: Path, prompts: list, changes: dict | None = None) -> list[Diagnostic]:
    """Return the findings about these training prompts; changes: values by key."""
    rows = [make_row(Problem("toy_sum", f"What is {n}?", "1", "train")) for n in range(len(prompts))]
    for row, prompt in zip(rows, prompts, strict=True):
        row["prompt"] = prompt
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), toy / "train.parquet")
    files = {"data.train_files": str(toy / "train.parquet"), "data.val_files": str(toy / "test.parquet")}
    return list(data.prompts_fit(run_config({**files, f"{MODEL}.path": str(toy / "model"), **(changes or {})})))


def test_the_count_is_verls(toy, monkeypatch):
    """verl's own filter leaves as many rows; texts with ß and ∑ are longer in bytes than in characters."""
    monkeypatch.setattr(os, "environ", os.environ)  # datasets puts a copy in its place; rich reads the first
    prompts = [*words(19, 20, 21, 79, 80, 81), [{"role": "user", "content": "ß ∑ " * 30}]]
    for limit in (20, 80):
        longer = found(toy, prompts, {"data.max_prompt_length": limit, "data.val_files": "/none.parquet"})
        config = OmegaConf.create({
            "max_prompt_length": limit, "filter_overlong_prompts": True, "cache_dir": str(toy / "cache"),
            "filter_overlong_prompts_workers": 1,
        })  # fmt: skip
        kept = len(RLHFDataset(str(toy / "train.parquet"), AutoTokenizer.from_pretrained(toy / "model"), config))
        assert f"{len(prompts) - kept} of {len(prompts)} prompts" in longer[0].message
    assert (longer[0].key, longer[0].remedy[:13]) == ("data.max_prompt_length", "set it to 81,")
    assert not found(toy, prompts, {"data.max_prompt_length": 81})
    assert not found(toy, prompts, {"data.filter_overlong_prompts": True})


def test_template_and_tokenizer_are_the_runs(toy):
    longer = found(toy, words(83), {TEMPLATE: ARGUMENT, ARGUMENTS: {"long": True}})
    assert "up to 88 tokens" in longer[0].message
    assert not found(toy, words(83), {TEMPLATE: ARGUMENT})  # 80 words
    (toy / "model/chat_template.jinja").rename(toy / "chat_template.jinja")
    error = found(toy, words(20))[0]
    assert (error.key, "chat_template is not set" in error.message) == ("data.train_files", True)
    assert TEMPLATE in error.remedy
    (toy / "model/tokenizer.json").rename(toy / "tokenizer.json")
    (toy / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert not found(toy, words(20), {f"{MODEL}.tokenizer_path": str(toy)})


@pytest.mark.parametrize(
    ("template", "argument", "level"),
    [
        (ARGUMENT, "lng", "error"),
        (ARGUMENT, "enable_thinking", "warning"),  # of another model
        ("{% if not long is defined %}{% set long = 1 %}{% endif %}{{ long }}{{ messages }}", "long", None),
    ],
)
def test_a_template_argument_that_the_template_does_not_read(toy, template, argument, level):
    """Misspelt: the name that was meant is said. Another model's: the run works as if it were not there."""
    findings = found(toy, words(5), {TEMPLATE: template, ARGUMENTS: {argument: False}})
    findings = [one for one in findings if one.key.startswith(f"{ARGUMENTS}.")]
    assert [one.level for one in findings] == [level] * (level is not None)
    assert all(("long" in one.remedy) == (level == "error") for one in findings)


@pytest.mark.parametrize(
    ("prompt", "template", "said"),
    [
        ([{"role": "user", "content": None}], None, "no list of messages with text"),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], NO_SYSTEM, "(no system role)"),
    ],
)
def test_a_prompt_that_has_no_text_is_named_with_its_row(toy, prompt, template, said):
    [error] = found(toy, [*words(*[20] * 10), prompt], {TEMPLATE: template})[:1]
    assert (error.key, error.value) == ("data.train_files", str(toy / "train.parquet"))
    assert error.message.startswith("row 10: ")
    assert said in error.message
