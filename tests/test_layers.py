"""The layers of the packages: no file imports from a layer above its own, and there are no import cycles."""

import importlib
import importlib.util
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from rpg.cli import COMMANDS, command

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("import_graph", ROOT / "scripts/import_graph.py")
assert spec is not None
assert spec.loader is not None
import_graph = importlib.util.module_from_spec(spec)
spec.loader.exec_module(import_graph)
MODULES, imported, package, packages = (
    import_graph.MODULES, import_graph.imported, import_graph.package, import_graph.packages
)  # fmt: skip

LAYERS = (
    {"rpg", "rpg.arguments", "rpg.diagnostics", "rpg.dotted", "rpg.gpu_host", "rpg.logged", "rpg.names",
     "rpg.overrides", "rpg.secrets"},
    {"rpg.objectives", "rpg.registry", "rpg.rewards", "rpg.data", "rpg.files", "rpg.plan"},
    {"rpg.objectives.proofs", "rpg.verl_plugin"},
    {"rpg.config"},
    {"rpg.checks"},
    {"rpg.run"},
    {"rpg.results", "rpg.toy"},
    {"rpg.cli", "recipe.rpg", "scripts"},
)  # fmt: skip


def layer(module: str) -> int:
    layers = [number for number, names in enumerate(LAYERS) if package(module) in names]
    assert layers, f"{module}: in no layer; add it to LAYERS and to the README's tree"
    return layers[0]


@pytest.mark.parametrize("module", MODULES)
def test_no_file_imports_upward(module):
    above = [other for other in imported(MODULES[module]) if layer(other) > layer(module)]
    assert not above, f"{module} imports {above}"


def test_no_import_cycle_of_files():
    tuple(TopologicalSorter({module: imported(path) - {module} for module, path in MODULES.items()}).static_order())


def test_no_import_cycle_of_packages():
    tuple(TopologicalSorter(packages()).static_order())


def test_the_graph_in_contributing_is_the_imports():
    assert import_graph.page() == import_graph.PAGE.read_text(), "python scripts/import_graph.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_one_shape(name):
    module = command(name)
    assert module.__name__.endswith(f".{name}_command")
    assert callable(module.configure)
    assert callable(module.run)


def test_nothing_imports_a_command():
    """A command parses its arguments and calls what its subject's files hold; rpg/cli.py finds it by its name."""
    commands = {module for module in MODULES if module.endswith("_command")}
    assert len(commands) == len(COMMANDS)
    importers = {module: used for module, path in MODULES.items() if (used := imported(path) & commands)}
    assert not importers


def test_the_verifier_has_one_door():
    """rpg.rewards.verified is a room: others call its one function."""
    room = "rpg.rewards.verified"
    assert importlib.import_module(room).__all__ == ["judge_response"]
    inside = {module for module in MODULES if module.startswith(f"{room}.")}
    outside = {module: path for module, path in MODULES.items() if module != room and module not in inside}
    importers = {module: used for module, path in outside.items() if (used := imported(path) & inside)}
    assert not importers
