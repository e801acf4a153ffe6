"""A directory with verl and the recipe, as a checkout of verl with our pull request."""

import importlib.util
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = "cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"


def make(root: Path) -> Path:
    """Put verl and the recipe into a directory, and return it."""
    spec = importlib.util.find_spec("verl")
    assert spec is not None
    assert spec.origin is not None
    (root / "verl").symlink_to(Path(spec.origin).parent)
    subprocess.run(["bash", "scripts/make_recipe.sh", root / "recipe/rpg"], cwd=ROOT, check=True)
    return root
