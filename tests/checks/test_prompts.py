"""Prompts before a run: none is cut unasked, and the chat template takes each; read as verl reads them."""

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
from tests.builders.toy_run import run_of

MODEL = "actor_rollout_ref.model"
TEMPLATE = f"{MODEL}.custom_chat_template"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
ARGUMENT = "{% for m in messages %}{{ m.content }}{% endfor %}{% if long %} a b c d e f g h{% endif %}"


def write(path: Path, prompts: list, split: str = "train") -> Path:
    rows = [make_row(Problem("toy_sum", f"What is {n}?", "1", split)) for n in range(len(prompts))]
    for row, prompt in zip(rows, prompts, strict=True):
        row["prompt"] = prompt
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path


def words(*counts: int) -> list[list[dict[str, str]]]:
    """Return prompts of so many tokens, two of them the template's "<user>" (in the toy tokenizer <, user, >)."""
    return [[{"role": "user", "content": " ".join(["w"] * (count - 3))}] for count in counts]


def found(toy: Path, prompts: list, *more: str) -> list[Diagnostic]:
    write(toy / "train.parquet", prompts)
    return list(data.prompts_fit(run_of(toy, "data.train_batch_size=8", *more)))


def test_the_count_and_the_length_that_would_do_are_said(toy):
    prompts = words(*[20] * 38, 81, 100)
    [diagnostic] = found(toy, prompts)
    assert diagnostic.level == "error"
    assert str(diagnostic) == (
        f"data.max_prompt_length=80: 2 of 40 prompts of {toy / 'train.parquet'} are longer, up to 100 tokens (first: "
        "row 38): verl would cut their beginning; set it to 100, or data.filter_overlong_prompts=true to leave them out"
    )
    assert not found(toy, prompts, "data.max_prompt_length=100")


def test_filtering_is_asked_for(toy):
    filtered = "data.filter_overlong_prompts=true"
    [diagnostic] = found(toy, words(*[20] * 38, 81, 100), filtered)
    assert diagnostic.level == "warning"
    assert "leaves out 2 of 40 prompts" in diagnostic.message


@pytest.mark.parametrize("limit", [20, 80])
def test_the_count_is_verls(toy, limit):
    """verl's own filter leaves as many rows; texts with ß and ∑ are longer in bytes than in characters."""
    prompts = [*words(19, 20, 21, 79, 80, 81), [{"role": "user", "content": "ß ∑ " * 30}]]
    (toy / "test.parquet").unlink()
    longer = found(toy, prompts, f"data.max_prompt_length={limit}", "data.val_files=[/none.parquet]")
    config = OmegaConf.create({
        "max_prompt_length": limit, "filter_overlong_prompts": True, "cache_dir": str(toy / "cache"),
        "filter_overlong_prompts_workers": 1,
    })  # fmt: skip
    kept = len(RLHFDataset(str(toy / "train.parquet"), AutoTokenizer.from_pretrained(toy / "model"), config))
    assert f"{len(prompts) - kept} of {len(prompts)} prompts" in longer[0].message


def test_the_template_is_the_runs(toy):
    (toy / "model/chat_template.jinja").unlink()
    [diagnostic] = found(toy, words(20))
    assert (diagnostic.key, diagnostic.level) == (f"{MODEL}.path", "error")
    assert "no chat template" in diagnostic.message
    assert TEMPLATE in diagnostic.remedy
    quoted = f"{TEMPLATE}='{ARGUMENT}'"
    assert not found(toy, words(83), f"+{quoted}")  # 80 words
    longer = found(toy, words(83), f"+{quoted}", "+data.apply_chat_template_kwargs.long=true")
    assert "up to 88 tokens" in longer[0].message


@pytest.mark.parametrize(
    ("template", "argument", "level"),
    [
        (ARGUMENT, "lng=true", "error"),
        (ARGUMENT, "enable_thinking=false", "warning"),  # of another model
        (ARGUMENT, "continue_final_message=false", None),  # transformers' own
        ("{% if not long is defined %}{% set long = 1 %}{% endif %}{{ long }}{{ messages }}", "long=2", None),
        ("{% generation %}{% if long %}a{% endif %}{{ messages }}{% endgeneration %}", "long=2", None),
    ],
)
def test_a_template_argument_that_the_template_does_not_read(toy, template, argument, level):
    """Misspelt: the name that was meant is said. Another model's: the run works as if it were not there."""
    more = [f"+{TEMPLATE}='{template}'", f"+data.apply_chat_template_kwargs.{argument}"]
    findings = [one for one in found(toy, words(5), *more) if one.key.startswith("data.apply_chat_template_kwargs.")]
    assert [one.level for one in findings] == [level] * (level is not None)
    assert all(("long" in one.remedy) == (level == "error") for one in findings)


def test_the_tokenizer_is_the_runs(toy):
    for name in ("tokenizer.json", "chat_template.jinja"):
        (toy / "model" / name).rename(toy / name)
    (toy / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert found(toy, words(20))
    assert not found(toy, words(20), f"{MODEL}.tokenizer_path={toy}")


@pytest.mark.parametrize(
    ("prompt", "template", "said"),
    [
        (None, None, "no list of messages with text"),
        ([{"role": "user", "content": None}], None, "no list of messages with text"),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], NO_SYSTEM, "(no system role)"),
        (words(20)[0], "{{ messages[0].content + 1 }}", "the chat template refuses the prompt (can only concat"),
        (words(20)[0], "{% if %}", "the chat template refuses the prompt ("),
    ],
)
def test_a_prompt_that_has_no_text_is_named_with_its_row(toy, prompt, template, said):
    more = [f'+{TEMPLATE}="{template}"'] if template else []
    fine = words(*[20] * 10)
    [diagnostic] = found(toy, [*fine, prompt] if template in (None, NO_SYSTEM) else [prompt], *more)[:1]
    assert (diagnostic.key, diagnostic.value) == ("data.train_files", str(toy / "train.parquet"))
    assert said in diagnostic.message
    assert diagnostic.message.startswith(f"row {10 if template in (None, NO_SYSTEM) else 0}: ")


def test_a_hub_model_that_is_not_here_is_not_counted(toy, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not found(toy, words(200), f"{MODEL}.path=nobody/no-such-model")
