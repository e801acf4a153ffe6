"""rpg/config/keys.py alone spells verl's keys, and has a row for every path and log of verl's."""

import ast
import re
from pathlib import Path

from rpg.config import keys
from rpg.config.run_config import verl_defaults

ROOT = Path(__file__).parents[2]
SPELL_KEYS = (
    "rpg/config/keys.py",
    "rpg/registry/scripts.py",
    "rpg/verl_plugin/",
)  # scripts.py: launch scripts' text
# without a row, so compared as text on a resume; the recipe leaves the features off
PATHS_OF_OTHER_FEATURES = {
    "actor_rollout_ref.actor.fsdp_config.qat.quantization_config_path",
    "actor_rollout_ref.actor.qat.quantization_config_path",
    "actor_rollout_ref.ref.fsdp_config.qat.quantization_config_path",
    "actor_rollout_ref.rollout.agent.custom_async_server.path",
    "actor_rollout_ref.rollout.multi_turn.function_tool_path",
    "actor_rollout_ref.rollout.multi_turn.tool_config_path",
    "actor_rollout_ref.rollout.quantization_config_file",
    "actor_rollout_ref.rollout.router_config_path",
    "skip.async_rollout.dump_dir",
    "skip.rollout.dump_dir",
    "skip.rollout_tq.dump_dir",
}


def dotted(section: dict, prefix: str = "") -> set[str]:
    """Return the keys of a configuration, sections included."""
    below = [dotted(value, f"{prefix}{name}.") for name, value in section.items() if isinstance(value, dict)]
    return {prefix + name for name in section}.union(*below)


VERL = {key for key in dotted(verl_defaults()) if key.partition(".")[0] != "rpg"}


def text_of(node: ast.AST) -> str:
    """Return a string with the constants of keys.py in their place, or "" for a node that is none."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return str(getattr(keys, node.value.id, "{}")) if isinstance(node.value, ast.Name) else "{}"
    return "".join(map(text_of, node.values)) if isinstance(node, ast.JoinedStr) else ""


def spelled(source: str) -> set[str]:
    """Return the keys of verl in a file's strings, alone or as an override."""
    tree = ast.parse(source)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr)]
    texts = (text_of(node) for node in strings if node not in docstrings)
    return {key for text in texts if "." in (key := text.partition("=")[0].lstrip("+~")) and key in VERL}


def test_no_other_file_spells_a_key_of_verl():
    assert spelled('x = f"{ROLLOUT}.n"; y = f"{MODEL}.path={z}"; z = "data.seed"; w = f"{z}.n"; v = "n.b."') == {
        "actor_rollout_ref.rollout.n", "actor_rollout_ref.model.path", "data.seed"
    }  # fmt: skip
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "rpg").rglob("*.py")}
    found = {name: spelled(path.read_text()) for name, path in files.items() if not name.startswith(SPELL_KEYS)}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_every_path_and_log_of_verl_has_a_row():
    """A key without a row defines the training: another directory would refuse the resume."""
    leaves = {key for key in VERL if not any(other.startswith(f"{key}.") for other in VERL)}
    without = {key for key in leaves if keys.row_of(key).key not in keys.BY_KEY}
    assert len(without) <= 312  # of verl 0.9.1
    assert {key for key in without if re.search("(path|dir|file|log|logger|profiler)$", key)} == PATHS_OF_OTHER_FEATURES
