"""The layers of the packages: no file imports from a layer above its own, and there are no import cycles."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from rpg.cli import COMMANDS, command

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    {"rpg", "rpg.names"},
    {"rpg.objectives", "rpg.methods", "rpg.rewards", "rpg.data", "rpg.files"},
    {"rpg.verl_plugin"},
    {"rpg.checks"},
    {"rpg.launching"},
    {"rpg.results", "rpg.toy", "rpg.lab"},
    {"rpg.cli", "recipe.rpg", "scripts"},
)
FILES = sorted(path for package in ("rpg", "recipe", "scripts") for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def imported(path: Path) -> set[str]:
    """Return the modules of this project that a file imports, except under TYPE_CHECKING."""
    found = set()
    tree = ast.parse(path.read_text())
    typing = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    tree.body = [node for node in tree.body if node not in typing]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found.update(inside or {node.module})
    return found & MODULES.keys()


def package(module: str) -> str:
    """Return rpg.data for rpg.data.build; a module in the root of rpg is its own package."""
    return module.split(".")[0] if module.startswith("scripts") else ".".join(module.split(".")[:2])


def layer(module: str) -> int:
    layers = [number for number, packages in enumerate(LAYERS) if package(module) in packages]
    assert layers, f"{module}: in no layer; add it to LAYERS and to the README's tree"
    return layers[0]


@pytest.mark.parametrize("module", MODULES)
def test_no_file_imports_upward(module):
    above = [other for other in imported(MODULES[module]) if layer(other) > layer(module)]
    assert not above, f"{module} imports {above}"


def test_no_import_cycle_of_files():
    tuple(TopologicalSorter({module: imported(path) - {module} for module, path in MODULES.items()}).static_order())


def packages() -> dict[str, set[str]]:
    """Return the packages, each with those that its files import."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        graph.setdefault(package(module), set()).update(package(other) for other in imported(path))
    return {name: others - {name} for name, others in graph.items()}


def test_no_import_cycle_of_packages():
    tuple(TopologicalSorter(packages()).static_order())


def test_the_graph_in_contributing_is_the_imports():
    drawing = (ROOT / "CONTRIBUTING.md").read_text().partition("flowchart TD")[2].partition("```")[0]
    arrows = dict(line.strip().split(" --> ") for line in drawing.strip().splitlines())
    drawn = {f"rpg.{name}": {f"rpg.{other}" for other in others.split(" & ")} for name, others in arrows.items()}
    inside = {name: others for name, others in packages().items() if layer(name) <= 5}
    foundation = {"rpg", "rpg.names"}
    assert drawn == {name: others - foundation for name, others in inside.items() if others - foundation}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_one_shape(name):
    module = command(name)
    assert module.__name__.endswith(f".{name}_command")
    assert callable(module.configure)
    assert callable(module.run)
