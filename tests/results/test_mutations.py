"""Whatever is wrong with a file that commands read: no traceback, the rest is shown, the exit code says so."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from synthetic import config, records, write_run

from rpg.cli import main
from rpg.results.settings import put

SEEDS = 24
SETTINGS = (
    "trainer.experiment_name", "trainer.total_training_steps", "trainer.val_only", "trainer.validation_data_dir",
    "trainer.resume_mode", "trainer.resume_from_path", "algorithm.adv_estimator", "algorithm.filter_groups.enable",
    "actor_rollout_ref.actor.policy_loss.loss_mode", "data.val_files", "reward.custom_reward_function",
    "reward.custom_reward_function.path", "reward.custom_reward_function.reward_kwargs.judge", "data.seed",
)  # fmt: skip
GOOD = "rpg_cpu_ukl_good"  # the run that no mutation touches
LINES = records([0.125, 0.5, 0.25])
SAID = re.compile("left out|not scored|no interval|cannot be told apart")
TEXTS = ["", "\x1b[31mred", "a\nb | c", "x\u2028y\x85z\r\n", "\ud800 half a pair", r"\input{/etc/passwd}", "=1+1",
         "<script>alert(1)</script>", "$\\frac$", "n" * 3000, "\x00nul", "${oc.env:HOME}", "../../up"]  # fmt: skip
ODD: list[Any] = [None, True, 0, -1, 3.5, float("nan"), float("inf"), 1e308, 10**400, [], [1, "a"], {}, {"a": [1]}]
BYTES = [b"", b"\n\n", b"\xff\xfe\x00binary", b"- a\n", b"null", b"42", b"{", b"a: &a {b: *a}\n", b"a: 2024-99-99",
         b"a: !!int ''", b"a: !!python/object/apply:os.getcwd []", b"[" * 5000, b'{"a":' * 5000]  # fmt: skip


def write_lines(file: Path, objects: list[Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))


def samples() -> list[Any]:
    return [
        {"input": f"What is {n % 4} + 7?", "output": "Answer: 7", "gts": "7", "score": 1.0, "acc": float(n % 4 == 0)}
        for n in range(8)
    ]


def change_metrics(random: Random, run: Path) -> None:
    lines: list[Any] = [{"step": step, "data": dict(data)} for step, data in LINES]
    line, value = random.choice(lines), random.choice([*ODD, *TEXTS])
    what = random.choice(["step", "data", "value", "name", "line", "order"])
    if what in ("step", "data"):
        line[what] = value
    elif what == "value":
        line["data"][random.choice(["critic/score/mean", "val-core/aime24/acc/mean@1"])] = value
    elif what == "name":
        line["data"][f"val-core/{random.choice(TEXTS)}/acc/mean@1"] = 0.5
    elif what == "line":
        lines[random.randrange(len(lines))] = value
    else:
        random.shuffle(lines)
    write_lines(run / "metrics.jsonl", lines)


def change_config(random: Random, run: Path) -> None:
    settings = config("rpg_cpu_urkl1e-4")
    put(settings, random.choice(SETTINGS), random.choice([*ODD, *TEXTS]))
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


def change_samples(random: Random, run: Path) -> None:
    changed = samples()
    place, value = random.randrange(8), random.choice([*ODD, *TEXTS])
    if random.random() < 0.3:
        changed[place] = value
    else:
        changed[place][random.choice(["input", "output", "gts", "acc"])] = value
    write_lines(run / "validation" / "4.jsonl", changed)


def change_bytes(random: Random, run: Path) -> None:
    """Other bytes, or no file, in place of any file of the run."""
    file = run / random.choice(["metrics.jsonl", "config.yaml", "environment.json", "validation/4.jsonl"])
    content, place = file.read_bytes(), random.randrange(file.stat().st_size)
    other = [content[:place], content[:place] + random.choice(BYTES) + content[place:], random.choice(BYTES)]
    file.unlink()
    kind = random.choice(["bytes", "bytes", "directory", "link"])
    if kind == "directory":
        file.mkdir()
    elif kind == "link":
        file.symlink_to("nowhere")
    else:
        file.write_bytes(random.choice(other))


CHANGES: list[Callable[[Random, Path], None]] = [change_metrics, change_config, change_samples, change_bytes]
COMMANDS = ("table", "table --format json", "score --judge release", "table --format tex", "plot")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_mutation_ends_a_command(seed, tmp_path, capsys):
    random = Random(seed)
    runs = tmp_path / "runs"
    for name, loss in ((GOOD, "rpg_ufkl"), ("rpg_cpu_urkl1e-4", "rpg_urkl")):
        run = write_run(runs / name, LINES, config(name, loss=loss))
        (run / "environment.json").write_text('{"python": "3.11"}')
        write_lines(run / "validation" / "4.jsonl", samples())
    CHANGES[seed % len(CHANGES)](random, run)
    name, *options = COMMANDS[seed % len(COMMANDS)].split()
    out = ["--out", str(tmp_path / "plots")] if name == "plot" else []
    code = main([name, str(runs), *options, *out])
    said = capsys.readouterr()
    if name == "plot":
        page = (tmp_path / "plots" / "index.html").read_text(encoding="utf-8")
        assert "<script>alert" not in page
        assert re.search(r"RPG-UFKL.*0\.2500.*0\.5000", re.sub("<[^>]*>", "", page))
    else:
        assert re.search(r"RPG-UFKL.*0\.25.*0\.5|0\.25,\n *\"best\": 0\.5", said.out)
        assert all(letter.isprintable() or letter == "\n" for letter in said.out)
        assert "<script" not in said.out or "json" in options or "\n% " in said.out
    assert code == bool(SAID.search(said.out + said.err))
    shutil.rmtree(tmp_path)
