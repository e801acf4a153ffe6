"""The parts of verl, Ray and vLLM that we build on: each is as the table says, and each one that we use is in it.

The second half reads our source: what it imports from the three, what it takes from there, what our subclasses
override and what they use of self, which environment variables of verl's it names, and which keys it reads.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rpg.checks.preflight import CHECKS
from rpg.checks.schema import SCHEMA, parents
from rpg.checks.verl_own import defaults
from rpg.verl_plugin import job_queue, parts, parts_of_ray_and_vllm, parts_of_verl
from rpg.verl_plugin.parts import Part, mismatches, sentences

ROOT = Path(__file__).resolve().parents[2]
LISTED = [
    (user, part)
    for table in (parts_of_verl.PARTS, parts_of_ray_and_vllm.PARTS)
    for user, its in table.items()
    for part in its
]
ALL = [part for _, part in LISTED]
PATHS = {part.path for part in ALL}
FILES = sorted(path for room in ("rpg", "recipe") for path in (ROOT / room).rglob("*.py"))
# of Ray and TransferQueue, what their documentation does not promise; of verl and vLLM, everything is an inside
WATCHED = re.compile(r"(verl|vllm|transfer_queue\.interface|ray\.(_\w+|actor|core)|ray\.\w+\._\w+)(\.|$)")
# bases and instances that our source names in another way than by importing their classes
INDIRECT = {
    "ScheduleFreeEngine": "verl.workers.engine.fsdp.transformer_impl.FSDPEngineWithLMHead",
    "StepAwareEngine": "verl.workers.engine.fsdp.transformer_impl.FSDPEngine",
}
INSTANCES = {"ray._private.worker._global_node": "ray._private.node.Node"}


# ---- the parts that are here are as the table says


@pytest.mark.parametrize(("user", "part"), LISTED, ids=[f"{user}-{part.path}" for user, part in LISTED])
def test_a_part_is_as_expected(user, part):
    assert list(sentences(user, part)) == []


def test_every_key_that_the_recipe_sets_is_one_of_verls():
    set_by_us = [key for key, rule in SCHEMA.items() if not rule.optional and not key.startswith("rpg.")]
    assert len(set_by_us) > 80
    assert [key for key in set_by_us if not in_verls_yaml(key)] == []


def test_every_user_is_a_file_that_is_there():
    assert [user for user, _ in LISTED if not (ROOT / user).is_file()] == []
    assert not [part.path for part in ALL if not part.why or part.why.endswith(".")]


def test_a_part_is_listed_once_for_a_user():
    listed = [(user, part.path) for user, part in LISTED]
    assert len(listed) == len(set(listed))


def test_parts_that_are_replaced_can_still_be_compared(monkeypatch):
    """A process that has registered already may be asked, too."""
    from transfer_queue import interface

    made, before = interface.TransferQueueController.options, inspect.unwrap(interface._init_from_existing)
    monkeypatch.setattr(interface.TransferQueueController, "options", inspect.unwrap(made))
    monkeypatch.setattr(interface, "_init_from_existing", before)
    job_queue.install()
    assert interface._init_from_existing is not before
    user = "rpg/verl_plugin/job_queue.py"
    assert [text for part in parts_of_ray_and_vllm.PARTS[user] for text in sentences(user, part)] == []


# ---- one that is not is named, with what is wrong


class Engine:
    """Stands for a class of verl's."""

    def __init__(self, config, *, strategy="fsdp2"):
        self.config = config
        self.rank: int = 0

    def train(self, data, loss_function):
        name = f"zmq-{data}-rank"
        return name


HERE = __name__


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part("verl.no_such_module", "", "x"), "verl.no_such_module cannot be imported (ModuleNotFoundError"),
        (Part(HERE, "Motor", "x"), f"{HERE}.Motor is not there: {HERE} has no Motor"),
        (Part(HERE, "Engine.stop", "x"), f"is not there: {HERE}.Engine has no stop"),
        (
            Part(HERE, "Engine.train", "x", signature="(self, data)"),
            "takes (self, data, loss_function), not (self, data)",
        ),
        (
            Part(HERE, "Engine", "x", signature="(config, *, strategy='fsdp')"),
            "takes (config, *, strategy='fsdp2'), not",
        ),
        (Part(HERE, "Engine.train", "x", passed=("data", "loss_function", "loss_fn")), "takes no loss_fn"),
        (Part(HERE, "Engine.train", "x", passed=("data",)), "wants loss_function, which we do not pass"),
        (Part(HERE, "Engine", "x", names=("train", "eval")), "has no eval"),
        (Part(HERE, "Engine", "x", lacks=("train",)), "has a train of its own"),
        (Part(HERE, "Engine", "x", sets=("config", "rank", "world")), "nowhere sets self.world"),
        (Part(HERE, "Engine.train", "x", texts=('f"zmq-{data}-{rank}"',)), "no longer says 'f\"zmq-{data}-{rank}\"'"),
        (Part(HERE, "SCHEMA", "x", names=(("vllm", "async"),)), "has no ('vllm', 'async')"),
        (Part(HERE, "HERE", "x", signature="()"), "can no longer be called"),
    ],
    ids=lambda value: value.attribute if isinstance(value, Part) else None,
)
def test_what_is_not_as_expected(part, said):
    (sentence,) = sentences("rpg/some.py", part)
    assert sentence.startswith(part.path)
    assert said in sentence
    assert sentence.endswith("; it x (rpg/some.py)")


def part_of(path: str, user: str) -> Part:
    return next(part for its, part in LISTED if part.path == path and its == user)


def test_a_part_of_verl_that_was_removed(monkeypatch):
    from verl.utils import tracking

    part = part_of("verl.utils.tracking.FileLogger.log", "rpg/launching/watch.py")
    monkeypatch.delattr(tracking.FileLogger, "log")
    assert list(mismatches(part)) == ["is not there: verl.utils.tracking.FileLogger has no log"]


def test_a_parameter_of_verl_that_was_renamed(monkeypatch):
    from verl.trainer.ppo import core_algos

    def agg_loss(loss_mat, loss_mask, loss_agg_mode, dp_size=1, batch_num_tokens=None, global_batch_size=None,
                 scale=None):  # fmt: skip
        """As verl's, but for the last name."""

    part = part_of("verl.trainer.ppo.core_algos.agg_loss", "rpg/verl_plugin/policy_loss.py")
    monkeypatch.setattr(core_algos, "agg_loss", agg_loss)
    assert "takes no loss_scale_factor" in list(mismatches(part))


def test_a_text_of_verl_that_was_changed(monkeypatch):
    socket = "verl.workers.rollout.vllm_rollout.vllm_rollout.ServerAdapter.__init__"
    part, read = part_of(socket, "rpg/verl_plugin/rollout_classes.py"), parts._source
    monkeypatch.setattr(parts, "_source", lambda found: read(found).replace("rl-colocate-zmq-{job_id}", "zmq-{uuid}"))
    (said,) = mismatches(part)
    assert said.startswith("no longer says 'self.zmq_handle = f\"ipc:///tmp/rl-colocate-zmq-{job_id}-replica-")


def test_white_space_in_a_source_does_not_count():
    part = Part(HERE, "Engine.train", "x", texts=('name=f"zmq-{data}-rank"\n  return name',))
    assert not list(mismatches(part))


def test_a_method_more_that_a_platform_has_to_have(monkeypatch):
    from verl.plugin.platform.platform_base import PlatformBase

    part = part_of("verl.plugin.platform.platform_base.PlatformBase", "rpg/verl_plugin/cpu.py")
    monkeypatch.setattr(PlatformBase, "__abstractmethods__", PlatformBase.__abstractmethods__ ^ {"cudart", "mesh"})
    assert list(mismatches(part)) == [
        "wants its subclasses to define mesh, which ours does not",
        "no longer wants its subclasses to define cudart",
    ]


# ---- what our source uses is in the table


def covered(path: str) -> bool:
    """Whether a part is listed, or something in it, or what it is in; a dict has methods."""
    if path in PATHS or any(known.startswith(f"{path}.") for known in PATHS):
        return True
    owner, _, name = path.rpartition(".")
    if f"{INSTANCES.get(owner)}.{name}" in PATHS or name == "__dict__":
        return True
    if owner in PATHS and isinstance(resolve(owner), dict):
        return True
    return any(part.path == owner and name in (*part.names, *part.sets) for part in ALL)


def chain(node: ast.AST) -> list[str]:
    """[a, b, c] of a.b.c; empty for what does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


class Uses(ast.NodeVisitor):
    """Dotted paths outside of us that a file names: imported, and what is taken from that."""

    def __init__(self, tree: ast.AST):
        self.bound: dict[str, str] = {}
        self.paths: set[str] = set()
        for _ in range(2):  # names are bound by imports, then by assignments of what was imported
            for node in ast.walk(tree):
                self._bind(node)
        self.visit(tree)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.bound[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                self.paths.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                self.bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                self.paths.add(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Assign) and (path := self.path(node.value)):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.bound.setdefault(target.id, path)

    def path(self, node: ast.AST) -> str:
        """The whole path of a.b.c where a was imported; empty where it was not."""
        names = chain(node)
        return ".".join([self.bound[names[0]], *names[1:]]) if names and names[0] in self.bound else ""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if path := self.path(node):
            self.paths.add(path)  # the whole of it; its beginnings are on the way
        else:
            self.generic_visit(node)


TREES = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in FILES}
USES = {path: Uses(tree) for path, tree in TREES.items()}


def test_a_use_that_nobody_listed_is_found():
    source = """
        from verl.trainer.ppo import core_algos as algos
        from verl.utils.device import get_torch_device, get_vendor
        def f():
            import ray
            Runner = algos.AdvantageEstimator
            return Runner.GRPO, ray._private.node.Node.kill, algos.agg_loss(), dict(a=1).items()
    """
    unlisted = [path for path in Uses(ast.parse(textwrap.dedent(source))).paths if WATCHED.match(path)]
    assert sorted(path for path in unlisted if not covered(path) and not is_module(path)) == [
        "ray._private.node.Node.kill",
        "verl.trainer.ppo.core_algos.AdvantageEstimator",
        "verl.trainer.ppo.core_algos.AdvantageEstimator.GRPO",
        "verl.utils.device.get_torch_device",
    ]


def is_module(path: str) -> bool:
    try:
        importlib.import_module(path)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("file", [path for path, uses in USES.items() if any(map(WATCHED.match, uses.paths))], ids=str)
def test_everything_imported_is_in_the_table(file):
    missing = []
    for path in sorted(filter(WATCHED.match, USES[file].paths)):
        if not covered(path) and not is_module(path):
            missing.append(path)
    assert missing == [], "add them to rpg/verl_plugin/parts_of_*.py"


def subclasses() -> Iterator[tuple[Path, ast.ClassDef, str]]:
    """Our classes with the path of the base that is not ours."""
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [INDIRECT.get(node.name, ""), *map(USES[file].path, node.bases)]
                yield from ((file, node, base) for base in bases if WATCHED.match(base))


SUBCLASSES = list(subclasses())


def resolve(path: str) -> Any:
    """The object at a path, whatever of it is module and whatever attribute."""
    names = path.split(".")
    for count in range(len(names), 0, -1):
        if is_module(".".join(names[:count])):
            found = importlib.import_module(".".join(names[:count]))
            for name in names[count:]:
                found = getattr(found, name)
            return found
    raise LookupError(path)


def of_the_base(base: str, name: str) -> bool:
    """Whether a member of a base is listed, with the base itself or with a base of that."""
    owners = {f"{cls.__module__}.{cls.__qualname__}" for cls in resolve(base).__mro__} | {base}
    named = {name for part in ALL if part.path in owners for name in (*part.names, *part.sets, *part.abstract)}
    return name in named or any(f"{owner}.{name}" in PATHS for owner in owners)


def test_our_subclasses_are_found():
    found = {node.name for _, node, _ in SUBCLASSES}
    assert {"RPGActor", "RPGTrainer", "RPGTaskRunner", "ServerAdapter", "CpuPlatform", "_SystemClassID"} <= found
    assert {"ScheduleFreeEngine", "RPGPolicyLossConfig", "AppendingFileLogger", "CompleteCheckpoints"} <= found


@pytest.mark.parametrize(("file", "node", "base"), SUBCLASSES, ids=[node.name for _, node, _ in SUBCLASSES])
def test_what_a_subclass_overrides_and_uses_is_in_the_table(file, node, base):
    theirs, missing = resolve(base), []
    ours = {item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}
    overridden = {name for name in ours if hasattr(theirs, name)}
    stored, used = set(), set()
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self":
            (stored if isinstance(item.ctx, ast.Store) else used).add(item.attr)
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Call) and chain(item.value.func) == ["super"]:
            used.add(item.attr)  # super().train_batch
    fields = {t.id for item in node.body for t in _targets(item)}
    shared = {name for name in stored | fields if hasattr(theirs, name)}
    for name in sorted(overridden | shared | (used - ours - stored - fields)):
        made_here = name.startswith("__") and getattr(theirs, name) is getattr(object, name, None)
        if not made_here and not of_the_base(base, name):
            missing.append(name)
    assert missing == [], f"{file}: add {base}.<name> to rpg/verl_plugin/parts_of_*.py"


def _targets(item: ast.stmt) -> list[ast.Name]:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


TEXTS = "\n".join(text for part in ALL for text in part.texts)


def literals(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_environment_variable_of_verls_is_in_the_table():
    named = {text for file, tree in TREES.items() if "parts_of" not in file.name for text in literals(tree)}
    variables = {text for text in named if re.fullmatch(r"VERL_[A-Z_]+", text)}
    assert len(variables) >= 5
    assert sorted(name for name in variables if f'"{name}"' not in TEXTS) == []


def test_every_module_that_is_imported_for_the_workers_is_in_the_table():
    profile = yaml.safe_load((ROOT / "recipe/rpg/config/profile/cpu.yaml").read_text())
    modules = {name for name in profile["rpg"]["preload"]["late"] if WATCHED.match(name)}
    assert modules == {part.path for user, part in LISTED if user == "recipe/rpg/config/profile/cpu.yaml"}


def in_verls_yaml(key: str) -> bool:
    """Whether verl's own configuration has a key."""
    held: Any = defaults()
    for name in key.split("."):
        if not isinstance(held, dict) or name not in held:
            return False
        held = held[name]
    return True


# where what a key holds is no longer verl's: Ray's, vLLM's, the optimizer's, ours
HANDED_ON = ("ray_kwargs.ray_init.", "rollout.engine_kwargs.vllm.", "optim.override_optimizer_config.", "rpg.")


def test_every_key_that_verl_has_not_in_its_yaml_is_in_the_table():
    missing = []
    for key, rule in SCHEMA.items():
        if in_verls_yaml(key) or any(section in key for section in HANDED_ON):
            continue
        assert rule.optional
        name = key.rpartition(".")[2]
        if not any(name in (*part.names, *part.lacks) or name in "".join(part.texts) for part in ALL):
            missing.append(key)
    assert missing == []


def test_every_key_that_is_read_is_one_that_is_checked():
    """config.trainer.total_training_steps in plugin and recipe; the keys that a check says it reads."""
    known = SCHEMA.keys() | {section for key in SCHEMA for section in parents(key)}
    known |= {"actor_rollout_ref.rpg", "reward.custom_reward_function.reward_kwargs"}  # ours; in the table
    sections = {key.partition(".")[0] for key in SCHEMA} - {"data", "reward"}  # which also are names of variables
    read = {key for check in CHECKS for key in check.keys}
    for file, tree in TREES.items():
        if file.parts[:2] not in (("rpg", "verl_plugin"), ("rpg", "launching")):
            continue
        for names in map(chain, ast.walk(tree)):
            while names and names[0] in ("self", "config"):
                names = names[1:]
            if len(names) > 1 and names[0] in sections and not hasattr(dict, names[-1]):
                read.add(".".join(names))
    assert len(read) > 100
    assert sorted(key for key in read - known if not in_verls_yaml(key)) == []
