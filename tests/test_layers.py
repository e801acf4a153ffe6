"""The layers of the packages: no file uses one of a layer above its own, and there are no cycles."""

from graphlib import TopologicalSorter

from rpg.cli import COMMANDS
from rpg.rewards import verified
from scripts.import_graph import MODULES, imported, named, package, packages

LAYERS = (
    {"rpg", "rpg.arguments", "rpg.diagnostics", "rpg.dotted", "rpg.gpu_host", "rpg.logged", "rpg.names",
     "rpg.overrides", "rpg.secrets"},
    {"rpg.objectives", "rpg.registry", "rpg.rewards", "rpg.data", "rpg.files"},
    {"rpg.objectives.proofs", "rpg.verl_plugin"},
    {"rpg.config"},
    {"rpg.checks", "rpg.plan"},
    {"rpg.run"},
    {"rpg.results", "rpg.toy"},
    {"rpg.cli", "recipe.rpg", "scripts"},
)  # fmt: skip


def layer(module: str) -> int:
    layers = [number for number, names in enumerate(LAYERS) if package(module) in names]
    assert layers, f"{module}: in no layer; add it to LAYERS and to the tree in CONTRIBUTING.md"
    return layers[0]


def used(module: str) -> set[str]:
    """Return the modules that a module imports or names in a text, such as that of a child process.

    Without the command line, which any file may start as a user does.
    """
    return (imported(MODULES[module]) | named(module)) - {module, "rpg.cli"}


def test_no_file_uses_a_layer_above():
    above = {module: {other for other in used(module) if layer(other) > layer(module)} for module in MODULES}
    assert not {module: others for module, others in above.items() if others}


def test_no_cycle_of_files():
    assert "rpg.rewards.math_verify_child" in used("rpg.rewards.release")  # started as a child process
    tuple(TopologicalSorter({module: used(module) for module in MODULES}).static_order())


def test_no_import_cycle_of_packages():
    tuple(TopologicalSorter(packages()).static_order())


def test_nothing_imports_a_command():
    """A command parses its arguments and calls what its subject's files hold; rpg/cli.py finds it by its name."""
    commands = {module for module in MODULES if module.endswith("_command")}
    assert len(commands) == len(COMMANDS)
    assert not [module for module, path in MODULES.items() if imported(path) & commands]


def test_the_verifier_has_one_door():
    """rpg.rewards.verified is a room: others call its one function."""
    room = "rpg.rewards.verified"
    assert verified.__all__ == ["judge_response"]
    inside = {module for module in MODULES if module.startswith(f"{room}.")}
    assert not [module for module in MODULES.keys() - inside - {room} if imported(MODULES[module]) & inside]
