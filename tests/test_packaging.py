"""The wheel, built from the sdist, in environments that have its declared dependencies only, base or [system]."""

import ast
import csv
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rpg.cli import COMMANDS
from tests.builders.runs import write_run

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SYSTEM = PROJECT["optional-dependencies"]["system"]
# Imported in a training run only, which needs verl with the extra of an inference engine.
OF_A_RUN = {"transfer_queue", "vllm", "zmq"}


COMMANDS_OF_RPG = """
import contextlib, io, json, shlex, sys
from rpg.cli import main
ended = []
for line in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            code = main(shlex.split(line))
        except SystemExit as left:
            code = left.code or 0
    ended.append((code, said.getvalue()))
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.check_output(listing, cwd=ROOT, text=True).split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "uv", "build", "--no-build-isolation", "--out-dir", str(out)]
    subprocess.run([*command, "--python", sys.executable, str(source)], check=True, capture_output=True, timeout=600)
    (built,) = out.glob("rpg_verl-*.whl")  # uv builds it from the sdist
    return built


def test_contents(wheel):
    """What the commands below do not need."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"rpg/verl_plugin/cpu/preload/client.py", "rpg/rewards/verified/units.txt"} <= names
    assert {name.partition("/")[0] for name in names} == {"rpg", f"rpg_verl-{PROJECT['version']}.dist-info"}


def test_what_is_imported_is_declared():
    """Except what verl itself requires without an extra: its versions are verl's choice."""
    gym = PROJECT["optional-dependencies"]["gym"]
    texts = [*PROJECT["dependencies"], *SYSTEM, *gym, *(metadata.requires("verl") or [])]
    requirements = [Requirement(text) for text in texts]
    declared = {canonicalize_name(requirement.name) for requirement in requirements if requirement.marker is None}
    distributions = metadata.packages_distributions()
    undeclared = defaultdict(set)
    for path in (ROOT / "rpg").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"rpg"}:
                if not declared & set(map(canonicalize_name, distributions.get(name, [name]))):
                    undeclared[name].add(path.relative_to(ROOT))
    assert undeclared.keys() == OF_A_RUN, {name: undeclared[name] for name in undeclared.keys() - OF_A_RUN}
    assert {path.parts[1] for name in OF_A_RUN for path in undeclared[name]} == {"verl_plugin"}


def closure(requirements: list[str], extra: str) -> set[str]:
    """Return the distributions that these requirements bring, all of which have to be installed here."""
    known, waiting = set(), [(Requirement(text), extra) for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for key in {(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)} - known:
            known.add(key)
            waiting += [(Requirement(text), key[1]) for text in metadata.requires(key[0]) or []]
    return {name for name, _ in known}


def link(site: Path, allowed: set[str]) -> None:
    """Link the files of these distributions of this environment into another site-packages.

    A folder that they do not share with another distribution is one link.
    """
    owners, files = defaultdict(set), defaultdict(list)
    here = Path(str(metadata.distribution("verl").locate_file("")))
    for distribution in metadata.distributions(path=[str(here)]):  # not those inside setuptools, once it is imported
        name = canonicalize_name(distribution.name)
        for file, *_ in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
            top = file.partition("/")[0]
            if top not in ("", ".."):  # not a script
                owners[top].add(name)
                if name in allowed:
                    files[top].append(file)
    for top, own in files.items():
        for file in [top] if owners[top] <= allowed else own:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).symlink_to(here / file)


class Installed:
    """An environment with the wheel and what it requires with an extra ("": none); its interpreter is not active."""

    def __init__(self, wheel: Path, root: Path, extra: str):
        self.bin, self.home, self.caches = root / "env/bin", root / "home", root / "caches"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True, timeout=900)
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--offline"]
        install += ["--compile-bytecode", "--python", str(self.bin / "python"), str(wheel)]
        subprocess.run(install, check=True, timeout=900)
        (self.site,) = (root / "env/lib").glob("python*/site-packages")
        (distribution,) = metadata.distributions(path=[str(self.site)])
        link(self.site, closure(distribution.requires or [], extra))
        self.home.mkdir()
        self.caches.mkdir()
        self.before = self.contents()

    def contents(self) -> dict[Path, tuple[int, int]]:
        """Return size and time of what a command must not change: site-packages, the package, the home directory."""
        paths = [*self.site.iterdir(), *(self.site / "rpg").rglob("*"), *self.home.rglob("*")]
        return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}

    def commands(self, directory: Path, lines: Iterable[str], **environment: str) -> list[tuple[int, str]]:
        """Run `rpg` with each of these arguments in one interpreter; return exit codes and outputs."""
        printed = self.run(directory, "python", "-c", COMMANDS_OF_RPG, *lines, **environment)
        return json.loads(printed.splitlines()[-1])

    def run(self, directory: Path, *command: str | Path, code: int = 0, **environment: str) -> str:
        """Run a command in a directory and return its output; nothing outside may change."""
        base = {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "TMPDIR": str(self.caches),  # torch makes a folder there
            "MPLCONFIGDIR": str(self.caches),  # matplotlib's list of fonts
            "HF_HOME": str(self.caches),  # locks of `datasets`
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        program = [self.bin / command[0], *command[1:]] if command[0] in ("python", "rpg") else command
        ended = subprocess.run(
            [str(word) for word in program], cwd=directory, env=base | environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        said = ended.stdout + ended.stderr
        assert ended.returncode == code, said[-3000:]
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:3000]
        assert self.contents() == self.before
        return said if code else ended.stdout


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"), "system")


@pytest.mark.slow
def test_base_alone(wheel, tmp_path):
    """The losses need torch; other commands and the launch scripts name the extra."""
    base = Installed(wheel, tmp_path / "base", "")
    assert base.run(tmp_path, "rpg", "verify", "--policies", "20").endswith(": passed\n")
    others = sorted(COMMANDS.keys() - {"verify", "list"})
    (code, listed), *refused = base.commands(tmp_path, ["list --size cpu", *others])
    assert code == 0
    assert "rpg_cpu_urkl1e-4" in listed
    for command, (code, said) in zip(others, refused, strict=True):
        assert code == 2
        assert said.startswith(f"rpg {command}: No module named ")
        assert f"in {base.bin.parent}; what this package needs comes with pip install 'rpg-verl[system]'" in said
    launched = base.run(tmp_path, "bash", base.site / "rpg/recipe/cpu/run_grpo_cpu.sh", code=2)
    assert "error: No module named " in launched


MINE = "data build --from mine.csv --question Q --answer A --data-source MATH --test-rows 4"
RUNS = "checkpoints/seed1 checkpoints/seed2"
TRIED = [  # arguments in a directory with a CSV, a reward and two runs; exit code, parts of the output
    ("--version", 0, PROJECT["version"]),
    ("list", 0, "grpo_7b_async"),
    ("plan rpg_7b_urkl1e-4", 0, "fits 8 x 80 GB"),
    ("doctor grpo_cpu", 1, "No module named 'cachetools'"),
    ("train grpo_cpu", 2, "No module named 'cachetools'"),
    ("reproduce 7 --methods dapo", 1, "failed: dapo_4b_4k-seed1: "),
    ("eval checkpoints/seed1", 2, "seed1: no complete checkpoint"),
    ("export nowhere", 2, "nowhere: no complete checkpoint"),
    ("table --paper 8", 0, "RPG-REINFORCE-URKL"),
    (MINE, 0, "mine"),
    ("data build reasoning_gym:chain_sum", 2, "pip install 'rpg-verl[gym]'"),
    ("data check data/mine_train.parquet data/mine_test.parquet", 0),
    ("score data/mine_train.parquet --reward reward.py", 0),
    (f"table {RUNS}", 0, "0.3000"),
    (f"compare {RUNS}", 0),
    (f"plot {RUNS}", 0),
    (f"watch --once {RUNS}", 0, "seed1  2/30"),
]  # fmt: skip


@pytest.mark.slow
def test_commands(installed, tmp_path):
    """Each command once; test_base_alone tries `rpg verify`."""
    assert {arguments.split()[0] for arguments, *_ in TRIED} >= COMMANDS.keys() - {"verify", "demo"}
    (tmp_path / "mine.csv").write_text("Q,A\n" + "".join(f"What is {n} + {n}?,{2 * n}\n" for n in range(20)))
    (tmp_path / "reward.py").write_text("def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
                                        "    return float(ground_truth in solution_str)\n")  # fmt: skip
    assert f"path: {tmp_path}/runs/toy/model" in installed.run(tmp_path, "rpg", "demo", "--model", "toy", DRY_RUN="1")
    script = installed.site / "rpg/recipe/cpu/run_grpo_cpu.sh"  # starts the environment's Python, which is not active
    config = yaml.safe_load(installed.run(tmp_path, "bash", script, DRY_RUN="1"))
    assert config["trainer"]["experiment_name"] == "grpo_cpu"
    assert config["data"]["train_files"] == str(tmp_path / "runs/toy/toy_train.parquet")
    for seed in (1, 2):
        config["data"]["seed"] = seed
        data = {"val-core/toy_sum/acc/mean@1": 0.3, "critic/score/mean": 0.1 * seed}
        write_run(tmp_path / f"checkpoints/seed{seed}", [(step, data) for step in range(3)], config)
    ended = installed.commands(tmp_path, [arguments for arguments, *_ in TRIED])
    for (arguments, expected, *parts), (code, said) in zip(TRIED, ended, strict=True):
        missing = [part for part in parts if part not in said]
        assert (code, missing) == (expected, []), f"rpg {arguments}: {said[-3000:]}"
    assert (tmp_path / "plots/panels.png").is_file()


@pytest.mark.full
def test_both_environments_resolve_on_both_pythons():
    """The script compares what it resolves with requirement.txt and requirements/cpu.txt."""
    subprocess.run(["bash", "scripts/check_requirement.sh"], cwd=ROOT, check=True, timeout=1200)
