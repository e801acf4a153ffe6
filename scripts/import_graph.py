"""Which modules and packages import which, read from their files, for tests/test_layers.py."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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


def named(module: str) -> set[str]:
    """Return the modules that a module's texts name, such as those of child processes, but not its own packages."""
    tree = ast.parse(MODULES[module].read_text())
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = {node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    found = {name for node in texts - docstrings for name in re.findall(r"\brpg(?:\.\w+)+", str(node.value))}
    return {name for name in found & MODULES.keys() if not f"{module}.".startswith(f"{name}.")}


def package(module: str) -> str:
    """Return rpg.data for rpg.data.tables; a module in the root of rpg is its own package."""
    return module.split(".")[0] if module.startswith("scripts") else ".".join(module.split(".")[:2])


def packages() -> dict[str, set[str]]:
    """Return the packages, each with those that its files import."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        graph.setdefault(package(module), set()).update(package(other) for other in imported(path))
    return {name: others - {name} for name, others in graph.items()}
