"""Seeded mutations of what the result commands read: one changes one thing of a scene of two runs and a checkpoint."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml
from synthetic import config, records, write_run
from test_readers import write_events, write_wandb

from rpg.results.config import READ

GOOD = "rpg_cpu_ukl_good"  # the run that no mutation touches
LINES = records([0.125, 0.375, 0.25])

TEXTS = [
    "",
    "\x1b[31mred\x1b[0m",
    "a\nb | c",
    "x\u2028y\x85z\r\n",
    "\ud800 half a pair",
    r"$\frac$",
    "$",
    r"\$x$ $$",
    r"\input{/etc/passwd}",
    r"\\[3pt] } { ^ ~ # % &",
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "a | b || c",
    "[x](http://x) ![y](z) **b** `c`",
    "=cmd|' /C calc'!A0",
    "+1",
    "-x",
    "@x",
    '","x',
    "_hidden",
    "n" * 3000,
    "\u202emirrored\u200b",
    "\x00nul",
    "${oc.env:HOME}",
    "漢字 ü 🙂",
    "../../up",
    "a/b/c",
]
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    3.5,
    float("nan"),
    float("inf"),
    1e308,
    -1e308,
    10**400,
    [],
    [1, "a", None],
    {},
    {"a": {"b": [1]}},
    [[[[[[1]]]]]],
    *TEXTS,
]
BYTES = [
    b"",
    b"\n\n\n",
    b"\xff\xfe\x00binary\x00",
    b"- a\n- b\n",
    b"text alone",
    b"null",
    b"[]",
    b"42",
    b"{",
    b"a: b: c",
    b"\tx: 1",
    b"a: &a [1]\nb: [*a, *a]\n",
    b"a: &a {b: *a}\n",
    b"a: 2024-99-99",
    b"a: !!timestamp x",
    b"a: !!bool x",
    b"a: !!int ''",
    b"a: !!python/object/apply:os.getcwd []",
    b"a: 0x" + b"f" * 6000,
    b"[" * 5000,
    b"{a: " * 500,
    b'{"a":' * 5000,
    b"? [a]\n: b",
    b"<<: 3",
    b"\x00" * 64,
    "trainer: {experiment_name: ü}".encode("latin-1"),
]
KEYS = [*READ, "actor_rollout_ref.actor.optim.lr", "data.seed"]


def sample(problem: int, acc: float, output: str = "Answer: 7") -> dict[str, Any]:
    text = f"user\nWhat is {problem} + 7?\nassistant\n"
    return {"input": text, "output": output, "gts": "7", "score": 2 * acc - 1, "step": 4, "acc": acc, "pred": "7"}


def write_lines(file: Path, objects: list[Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # as verl writes them: U+2028 and U+0085 as they are
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))


def scene(folder: Path) -> tuple[Path, Path]:
    """Two runs with samples: the one that stays as it is, and the one to be mutated, with a checkpoint beside."""
    runs = []
    for name, loss in ((GOOD, "rpg_ufkl"), ("rpg_cpu_urkl1e-4", "rpg_urkl")):
        run = write_run(folder / "runs" / name, LINES, config(name, loss=loss))
        (run / "environment.json").write_text(json.dumps({"python": "3.11", "versions": {"verl": "0.9.1"}}))
        for step in (0, 2, 4):
            write_lines(run / "validation" / f"{step}.jsonl", [sample(n % 3, float(n < 3)) for n in range(6)])
        runs.append(run)
    actor = runs[1] / "global_step_4" / "actor"
    (actor / "huggingface").mkdir(parents=True)
    (actor / "huggingface" / "config.json").write_text("{}")
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 2}')
    for rank in range(2):
        (actor / f"model_world_size_2_rank_{rank}.pt").write_bytes(b"shard")
    (runs[1] / "global_step_4" / "data.pt").write_bytes(b"data")
    (runs[1] / "latest_checkpointed_iteration.txt").write_text("4")
    return runs[0], runs[1]


def put(target: Any, key: str, value: Any) -> None:
    *parents, name = key.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
    target[name] = value


def damaged(random: Random, content: bytes) -> bytes:
    """A cut, a flipped bit, foreign bytes in the middle, a part twice, or something else altogether."""
    place = random.randrange(len(content) + 1)
    other = random.randrange(len(content) + 1)
    return random.choice(
        [
            content[:place],
            content[:place] + bytes([random.randrange(256)]) + content[place + 1 :],
            content[:place] + random.choice(BYTES) + content[place:],
            content[: max(place, other)] + content[min(place, other) :],
            random.randbytes(200),
            random.choice(BYTES),
        ]
    )


def not_a_file(random: Random, file: Path) -> None:
    """A directory, a link into nothing or to itself, or nothing, where a file was."""
    file.unlink()
    kind = random.choice(["directory", "dangling", "loop", "absent", "fifo"])
    if kind == "directory":
        file.mkdir()
    elif kind in ("dangling", "loop"):
        file.symlink_to(file.name if kind == "loop" else "nowhere")
    elif kind == "fifo":
        os.mkfifo(file)


def change_bytes(random: Random, file: Path) -> str:
    if random.random() < 0.2:
        not_a_file(random, file)
        return f"{file.name} is no file"
    content = damaged(random, file.read_bytes())
    file.write_bytes(content)
    return f"{file.name} holds {content[:40]!r}..."


def change_metrics(random: Random, run: Path) -> str:
    """One value, metric, step or line of metrics.jsonl."""
    lines = [{"step": step, "data": dict(data)} for step, data in LINES]
    line, value = random.choice(lines), random.choice(ODD)
    what = random.choice(["step", "accuracy", "metric", "data", "key", "line", "extra", "order"])
    if what == "accuracy":
        line = random.choice(lines[::2])
        line["data"]["val-core/aime24/acc/mean@1"] = value
    elif what == "metric":
        line["data"][random.choice(["critic/score/mean", "actor/entropy", "response_length/mean"])] = value
    elif what == "key":
        text = random.choice(TEXTS)
        key = random.choice([text, f"val-core/{text}/acc/mean@1", "val-core/AIME24/acc/mean@1"])
        line["data"][key] = random.choice([0.5, 0.25, value])
    elif what in ("step", "data"):
        line[what] = value
    elif what == "line":
        lines[random.randrange(len(lines))] = value
    elif what == "extra":
        lines = [{"step": n, "data": {f"val-core/set {n}-{m}/acc/mean@1": 0.5 for m in range(9)}} for n in range(9)]
    else:
        random.shuffle(lines)
    write_lines(run / "metrics.jsonl", lines)
    return f"metrics: {what} {value!r:.60}"


def change_config(random: Random, run: Path) -> str:
    settings = config("rpg_cpu_urkl1e-4")
    key, value = random.choice(KEYS), random.choice(ODD)
    put(settings, key, value)
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    return f"config: {key} = {value!r:.60}"


def change_environment(random: Random, run: Path) -> str:
    value = random.choice([*ODD, {random.choice(TEXTS): random.choice(ODD)}])
    (run / "environment.json").write_text(json.dumps(value))
    return f"environment: {value!r:.60}"


def change_name(random: Random, run: Path) -> str:
    """A name of the run, in its configuration or as its directory."""
    text = random.choice(TEXTS)
    if random.random() < 0.5:
        settings = config(text, loss=random.choice(["rpg_urkl", "my_loss"]))
        (run / "config.yaml").write_text(yaml.safe_dump(settings))
        return f"experiment_name {text!r:.60}"
    name = text.replace("/", "_").replace("\x00", "").encode("utf-8", "ignore").decode()[:60]
    if not name or name == ".._.._up":
        name = os.fsdecode(b"bytes \xff\xfe")
    (run / "config.yaml").unlink()
    run.rename(run.parent / name)
    return f"directory {name!r}"


def change_samples(random: Random, run: Path) -> str:
    """One value or line of the samples of the last validation, or of an earlier one."""
    file = run / "validation" / f"{random.choice([4, 4, 4, 2])}.jsonl"
    samples: list[Any] = [sample(n % 3, float(n < 3)) for n in range(6)]
    value = random.choice(ODD)
    what = random.choice(["input", "output", "gts", "acc", "line", "missing", "text", "many levels"])
    if what == "line":
        samples[random.randrange(6)] = value
    elif what == "missing":
        del samples[2][random.choice(["input", "output", "gts", "acc"])]
    elif what == "text":
        samples[2]["output"] = "First\u2028then\x85 \x0b\x0c\x1c Answer: 7" + random.choice(TEXTS)
    elif what == "many levels":
        for _ in range(500):
            value = [value]
        samples[2]["pred"] = value
    else:
        samples[2][what] = value
    write_lines(file, samples)
    return f"samples: {what} {value!r:.60}"


def change_files(random: Random, run: Path) -> str:
    """Any file of the run: other bytes, or no file."""
    files = ["metrics.jsonl", "config.yaml", "environment.json", "validation/4.jsonl", "validation/2.jsonl"]
    return change_bytes(random, run / random.choice(files))


def change_kind(random: Random, run: Path) -> str:
    """Another logger's file, damaged."""
    (run / "metrics.jsonl").unlink()
    if random.random() < 0.5:
        write_wandb(run / "wandb" / "run-1.wandb", config("rpg_cpu_urkl1e-4"), LINES)
        return change_bytes(random, run / "wandb" / "run-1.wandb")
    write_events(run, LINES)
    return change_bytes(random, next(run.glob("events.out.tfevents.*")))


def change_checkpoint(random: Random, run: Path) -> str:
    """Metadata of the checkpoint."""
    actor = run / "global_step_4" / "actor"
    if random.random() < 0.4:
        key, value = random.choice(["world_size", "FSDP_version", "other"]), random.choice(ODD)
        (actor / "fsdp_config.json").write_text(json.dumps({"world_size": 2, key: value}))
        return f"fsdp_config: {key} = {value!r:.60}"
    if random.random() < 0.3:
        (actor / f"model_world_size_2_rank_{random.randrange(2)}.pt").unlink()
        return "a shard is missing"
    files = ["global_step_4/actor/fsdp_config.json", "global_step_4/actor/huggingface/config.json"]
    return change_bytes(random, run / random.choice([*files, "latest_checkpointed_iteration.txt"]))


RUN_CHANGES: list[Callable[[Random, Path], str]] = [
    change_metrics,
    change_config,
    change_environment,
    change_name,
    change_samples,
    change_files,
    change_kind,
]
