"""Wrong and odd settings by the thousand, made from a fixed seed; test_campaign.py puts each through pre-flight.

A setting is one of six kinds: a key whose range is checked, any other key of verl, a section or the grammar itself,
numbers that are each in their range, an environment variable, a file.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.checks import settings
from rpg.checks.machine import VARIABLES
from rpg.launching.compose import compose_config, resolve
from tests.checks.conftest import CPU, safetensors

KEYS = sorted({*settings.RANGES, *settings.RPG_KEYS} - {"rpg.reference", "rpg.preload"})
SECTIONS = [*settings.SECTIONS, "rpg", "rpg.reference", "rpg.preload"]
SEED = 20251121
# as they would stand behind the = of an override
ODD = (
    "abc", "-1", "0", "1", "2", "2.5", "-0.5", "1e-4", "1e30", "1000000000000", "nan", "inf", "-inf", "null", "true",
    "False", "[]", "[1,2]", "[abc,null]", "{}", "{a: 1}", "''", "' '", "'300'", "'null'", "ü", "'a b'", "'a\tb'",
    "x,", "a.b", "/proc/nowhere", "'~'", "-", "0x10", "1_000", "2h", "'\\''",
)  # fmt: skip
# what a value of this kind is never taken for
NEVER = {
    int: ("abc", "2.5", "nan", "inf", "true", "[]", "[1,2]", "{a: 1}", "''", "'300'", "2h"),
    float: ("abc", "nan", "inf", "-inf", "true", "[]", "{a: 1}", "''", "'300'", "2h"),
    bool: ("abc", "1", "2.5", "[]", "{a: 1}", "''", "'300'"),
}
NUMBERS = {
    "data.train_batch_size": (1, 2, 8, 16, 32, 48, 64, 65, 10**6),
    "actor_rollout_ref.actor.ppo_mini_batch_size": (1, 3, 8, 16, 32, 64),
    "actor_rollout_ref.rollout.n": (1, 2, 5, 8),
    "trainer.n_gpus_per_node": (1, 2, 3, 8),
    "actor_rollout_ref.rollout.tensor_model_parallel_size": (1, 2, 3),
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": (1, 2),
    "data.max_prompt_length": (1, 20, 80, 4096),
    "data.max_response_length": (1, 4, 32, 4096),
    "actor_rollout_ref.rollout.max_model_len": (1, 100, 112, 10**5),
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": (1, 112, 10**5),
    "reward.reward_kwargs.overlong_buffer_cfg.len": (1, 4, 32, 64),
    "trainer.total_training_steps": (1, 10**9),
    "trainer.nnodes": (1, 2),
}
FILES = {
    "train.parquet": (b"", b"PAR1", b"not parquet", None),
    "model/config.json": (b"", b"{", b"[]", b"{}", b"\xff\xfe", b"\x00\x01\x02", b'{"model_type": 5}', None),
    "model/tokenizer.json": (None,),
    "model/model.safetensors": (b"", b"\x00" * 7, b"\xff" * 64, safetensors()[:-3], None),
    "model/model.safetensors.index.json": (b"", b"[]", b'{"weight_map": 3}', b'{"weight_map": {"w": "none"}}'),
    "run/latest_checkpointed_iteration.txt": (b"", b"abc", b"-1", b"7", b"\xff"),
    "run": (b"a file",),
}
COLUMNS = {
    "data_source": ([1], [None], ["riddles"], [["toy_sum"]]),
    "prompt": (["text"], [None], [[]], [[{"role": "user"}]], [{"role": "user", "content": "x"}]),
    "reward_model": (["7"], [None], [{"style": "rule"}]),
}


@dataclass(frozen=True)
class Setting:
    """One of the campaign.

    Attributes:
        overrides: as they would be given to a launch script.
        environment: variables.
        file: name below the toy directory, and its content (None: it is taken away).
        column: of the training file, and its values, one row.
        refused: whether it has to be; False: it may be.
    """

    kind: str
    overrides: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, hash=False)
    file: tuple[str, bytes | None] | None = None
    column: tuple[str, list[Any]] | None = None
    refused: bool = False

    def furnish(self, toy: Path) -> None:
        """Change the files of a toy run."""
        if self.file:
            path = toy / self.file[0]
            if self.file[1] is None:
                path.unlink()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(self.file[1])
        if self.column:
            name, values = self.column
            table = pq.read_table(toy / "train.parquet").slice(0, 1)
            place = table.column_names.index(name)
            pq.write_table(table.set_column(place, name, pa.array(values)), toy / "train.parquet")


def leaves() -> dict[str, Any]:
    """Every key of the toy run that is no section, with its value."""
    plain = resolve(compose_config(CPU)).config
    found: dict[str, Any] = {}

    def walk(key: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                walk(f"{key}.{name}" if key else str(name), inner)
        else:
            found[key] = value

    walk("", plain)
    return found


def of_keys(kind: str, keys: list[str], held: dict[str, Any], count: int, random: random.Random) -> list[Setting]:
    """So many keys set to odd values, by turns; refused where the value is never of the key's kind."""
    made = []
    for number in range(count):
        key, value = keys[number % len(keys)], random.choice(ODD)
        plus = "" if key in held else "++"
        made.append(Setting(kind, (f"{plus}{key}={value}",), refused=value in NEVER.get(type(held.get(key)), ())))
    return made


def structure(count: int, random: random.Random) -> list[Setting]:
    """Sections that are none, keys that go, keys that come, and text that is no override."""
    keys = KEYS
    made: list[Setting] = []
    while len(made) < count:
        section, key, odd = random.choice(SECTIONS), random.choice(keys), random.choice(ODD)
        made += [
            Setting("structure", (f"{section}={odd}",)),
            Setting("structure", (f"~{section}",)),
            Setting("structure", (f"~{key}",)),
            Setting("structure", (f"+{key}.more={odd}",)),
            Setting("structure", (f"+{section}.no_such_key={odd}",)),
            Setting("structure", (f"{key[:-1]}={odd}",), refused=True),
            Setting(
                "structure", (random.choice(("=", "a", "==1", "trainer.", "+", "~", "{", "a=[", "a=${b}", "\x00")),)
            ),
            Setting("structure", (f"{key}=${{{random.choice(keys)}}}",)),
        ]
    return made[:count]


def numbers(count: int, random: random.Random) -> list[Setting]:
    """Two to four numbers that are each in their range."""
    made = []
    for _ in range(count):
        keys = random.sample(sorted(NUMBERS), random.randint(2, 4))
        made.append(Setting("numbers", tuple(f"{key}={random.choice(NUMBERS[key])}" for key in keys)))
    return made


def environment(count: int, random: random.Random) -> list[Setting]:
    """Variables that the scripts and what runs in them read."""
    values = (
        "",
        " ",
        "abc",
        "0",
        "-1",
        "2(",
        "1",
        "[",
        "[a,",
        "[]",
        "~",
        "a b",
        "a=b",
        "ü",
        "nan",
        "${x}",
        "'",
        "/dev/null",
    )
    names = [*VARIABLES, "RAY_ADDRESS_", "NETRC", "WANDB_BASE_URL", "DRY_RUN", "WANDB_API_KEY"]
    return [
        Setting("environment", environment={name: random.choice(values)})
        for name in (names[number % len(names)] for number in range(count))
    ]


def campaign() -> list[Setting]:
    """All settings, in an order of their own, so that the first hundred hold some of each kind."""
    generator = random.Random(SEED)
    held = leaves()
    others = sorted(set(held) - set(KEYS))
    generator.shuffle(others)
    made = of_keys("range", KEYS, held, 520, generator)
    made += of_keys("verl", others, held, 260, generator)
    made += structure(120, generator) + numbers(120, generator) + environment(75, generator)
    made += [Setting("file", file=(name, content)) for name, contents in FILES.items() for content in contents]
    made += [Setting("file", column=(name, values)) for name, columns in COLUMNS.items() for values in columns]
    generator.shuffle(made)
    return made
