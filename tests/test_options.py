"""Every option of every command has an effect that a test shows; the few that no room's test shows are shown here."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg import cli
from rpg.checks import doctor
from rpg.checks.preflight import CHECKS, name_of

TESTS = Path(__file__).parent
# command, file with the tests that show the effect of these options
SHOWN = """
verify       objectives/proofs/test_verify.py     --policies --outcomes --json --plot
verify       objectives/proofs/test_on_device.py  --device
verify       test_options.py                      --seed --kl-coef
data build   data/test_user_data.py               --from --question --answer --name --data-source --template --keep
data build   data/test_user_data.py               --test-rows --seed
data build   data/test_build.py                   --out --repeat --exclude
data build   test_options.py                      --low --high --train-size --test-size
data check   data/test_check.py                   --tokenizer --max-prompt-length
data check   data/test_user_data.py               --json --reward
data build   data/test_few_shot.py                --few-shot
data build   data/test_gym.py                     --set
demo         run/test_terminal.py                 --dir --prepare-only
demo         toy/test_toy.py                      --model
list         test_cli.py                          --size --method --task
train        run/test_train_command.py            --model --train --test --reward
doctor       run/test_train_command.py            --model --train --test --reward --verbose
doctor       test_options.py                      --list --json --ray
plan         run/test_train_command.py            --model --train --test --reward
plan         run/test_plan.py                     --gpu --memory --nodes --json
watch        results/test_watch_command.py        --every --once
watch        results/test_answers.py              --answers
compare      results/test_compare.py              --answers --json
table        results/test_table.py                --paper --format --json
plot         results/test_plot.py                 --out --paper --pass-at --title
eval         results/test_eval.py                 --checkpoint --test --train --model --samples --judge --reward --out
eval         results/test_eval.py                 --print
score        results/test_score.py                --judge --reward --files --out
score        results/test_try_reward.py           --function --keywords --responses --rows
reproduce    results/test_reproduce.py            --methods --seeds --profile --steps --out --dry-run
reproduce    e2e/test_reproduce.py                --parallel
export       results/test_export.py               --out
export       results/test_reshard.py              --ranks
"""
SHORT = {"--verbose": '"-v"'}  # how the tests write it


def options(parser: argparse.ArgumentParser, command: str) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from options(below, f"{command} {name}")
        elif action.option_strings and "--help" not in action.option_strings:
            yield command, action.option_strings[-1]


def test_every_option_has_a_test_of_its_effect():
    made = set()
    for name in cli.COMMANDS:
        cli.command(name).configure(parser := argparse.ArgumentParser(conflict_handler="resolve"))
        made |= set(options(parser, name))
    shown = set()
    for line in SHOWN.strip().splitlines():
        command, (file, *flags) = line[:13].strip(), line[13:].split()
        text = (TESTS / file).read_text(encoding="utf-8")
        assert [flag for flag in flags if f'"{flag}' not in text and SHORT.get(flag, flag) not in text] == [], line
        shown |= {(command, flag) for flag in flags}
    assert shown == made


def test_seed_and_beta_of_verify_change_its_numbers(capsys):
    def shown(*options: str) -> str:
        assert cli.main(["verify", "--json", "--policies", "2", *options]) == 0
        return capsys.readouterr().out

    usual = shown()
    assert usual == shown("--seed", "0", "--kl-coef", "0.1")
    assert len({usual, shown("--seed", "1"), shown("--kl-coef", "0.2")}) == 3


def test_sizes_and_operands_of_the_toy_set(tmp_path):
    sizes = ["--train-size", "7", "--test-size", "3", "--low", "40", "--high", "59"]
    assert cli.main(["data", "build", "toy", "--out", str(tmp_path), *sizes]) == 0
    for split, rows in (("train", 7), ("test", 3)):
        models = pq.read_table(tmp_path / f"toy_{split}.parquet")["reward_model"].to_pylist()
        sums = [int(model["ground_truth"]) for model in models]
        assert len(sums) == rows
        assert 80 <= min(sums) <= max(sums) <= 118


def test_the_list_of_checks_has_all(capsys):
    assert cli.main(["doctor", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name_of(check)}: " in listed for checks in CHECKS.values() for check in checks)


@pytest.mark.parametrize(
    ("options", "names"), [([], ["plugin here"]), (["--ray"], ["plugin here", "plugin in a Ray worker"])]
)
def test_doctor_also_asks_a_ray_worker(monkeypatch, capsys, options, names):
    """The probes are stood in for: tests/checks/test_doctor.py runs both."""
    asked: list[str] = []
    answer = doctor.Diagnostic("x", None, "", level="ok")
    monkeypatch.setattr(doctor, "plugin", lambda name, probe: asked.append(name) or answer)
    assert cli.main(["doctor", "--json", *options]) == 0
    assert asked == names
    assert json.loads(capsys.readouterr().out)["failed"] == 0
