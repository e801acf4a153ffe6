#!/usr/bin/env python3
"""Compare losses, estimators and verl's actor loss under older versions of verl with this environment's verl.

python scripts/verl_matrix.py            # prints the table of docs/plain_verl.md; exit code 1 if a number differs
python scripts/verl_matrix.py --write    # also writes it there
python scripts/verl_matrix.py --verl DIR # prints the row of a checkout of verl, for example of its main branch

Downloads the wheels of VERSIONS with pip (6 MB) into ~/.cache/rpg-verl, or $XDG_CACHE_HOME/rpg-verl. Each version runs
in a process of its own, with the unpacked wheel before this environment's verl and everything else unchanged.
"""

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/plain_verl.md"
VERSIONS = ("0.6.1", "0.7.1", "0.8.0", "0.9.0")
AGGREGATIONS = ("token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
GLOBAL = {"dp_size": 2, "batch_num_tokens": 90, "global_batch_size": 12, "loss_scale_factor": 16}
PROMPTS, RESPONSES = (2, 3, 1, 2, 4, 2), (11, 3, 7, 11, 1, 9)  # tokens of six sequences
AUTOLOAD = "rpg.verl_plugin.autoload"


def wheel(version: str) -> Path:
    """Return the wheel of a version of verl, downloaded unless it is in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rpg-verl"
    if not (found := list(cache.glob(f"verl-{version}-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(cache), f"verl=={version}"], check=True)
        found = list(cache.glob(f"verl-{version}-*.whl"))
    return found[0]


def readme_overrides() -> list[str]:
    """Return the overrides that README gives for plain verl."""
    section = (ROOT / "README.md").read_text().partition("## In your own verl run")[2]
    (block,) = re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    return shlex.split(block.replace("\\\n", " "))


def actor_config(*overrides: str) -> Any:
    """Return the actor's config as verl's worker makes it, from verl's trainer configuration with these overrides."""
    import hydra
    import verl
    from verl.utils.config import omega_conf_to_dataclass

    folder = Path(verl.__file__).parent / "trainer/config"
    with hydra.initialize_config_dir(version_base=None, config_dir=str(folder)):
        config = hydra.compose("ppo_trainer", overrides=list(overrides))
    assert config.algorithm.adv_estimator == "rpg"
    return omega_conf_to_dataclass(config.actor_rollout_ref.actor)


def aggregations(config: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what verl's agg_loss makes of one tensor; without the aggregations and global_batch_info that it lacks."""
    from verl.trainer.ppo.core_algos import agg_loss

    results: dict[str, Any] = {}
    for mode in AGGREGATIONS:
        for info in ({}, GLOBAL) if hasattr(config, "global_batch_info") else ({},):
            try:
                loss = agg_loss(inputs["advantages"], inputs["response_mask"], mode, **info)
            except ValueError as error:
                if "Invalid loss_agg_mode" not in str(error):
                    raise
            else:
                results[f"{mode} {'global' if info else 'local'}"] = exact(loss)
    return results


def losses(config: Any, inputs: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return loss, gradient and metrics of every loss of ours under each of these aggregations."""
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    from rpg.objectives import LOSS_NAMES

    results: dict[str, Any] = {}
    for name, key in itertools.product(LOSS_NAMES, keys):
        mode, scope = key.split()
        if hasattr(config, "global_batch_info"):
            config.global_batch_info.clear()
            config.global_batch_info.update(GLOBAL if scope == "global" else {})
        log_prob = inputs["log_prob"].clone().requires_grad_()
        given = {**inputs, "log_prob": log_prob * 1.0}
        loss, metrics = POLICY_LOSS_REGISTRY[name](**given, loss_agg_mode=mode, config=config)
        loss.backward()
        results[f"{name} {key}"] = exact(loss, log_prob.grad, metrics)
    return results


def actor_losses(config: Any, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """Return loss and gradient of verl's ppo_loss with every loss of ours; None where verl has no ppo_loss."""
    import torch

    from rpg.objectives import LOSS_NAMES

    try:
        from verl.utils import tensordict_utils as tu
        from verl.workers.utils.losses import ppo_loss
    except ImportError:
        return None
    from tensordict import TensorDict

    def nested(rows: list[Any]) -> Any:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    fields = {
        "prompts": nested([torch.ones(n, dtype=torch.int64) for n in PROMPTS]),
        "responses": nested([torch.ones(n, dtype=torch.int64) for n in RESPONSES]),
        "attention_mask": nested([torch.ones(p + r) for p, r in zip(PROMPTS, RESPONSES, strict=True)]),
        "response_mask": inputs["response_mask"],
        "old_log_probs": inputs["old_log_prob"],
        "advantages": inputs["advantages"],
        "rollout_is_weights": inputs["rollout_is_weights"],
    }
    results = {}
    for name in LOSS_NAMES:
        object.__setattr__(config.policy_loss, "loss_mode", name)  # verl's configs are frozen
        leaf = inputs["log_prob"].clone().requires_grad_()
        rows = []  # of a sequence, shifted by one token; its prompt's log-probs are not read
        for row, prompt, response in zip(leaf, PROMPTS, RESPONSES, strict=True):
            rows.append(torch.cat([torch.zeros(prompt - 1), row[:response], torch.zeros(1)]))
        data = TensorDict(fields, batch_size=len(RESPONSES))
        tu.assign_non_tensor(data, dp_size=2, batch_num_tokens=90, global_batch_size=12)
        loss, _ = ppo_loss(config=config, model_output={"log_probs": nested(rows)}, data=data)
        loss.backward()
        results[name] = exact(loss, leaf.grad)
    return results


def estimators(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the advantages of both estimators, found as verl finds them."""
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    rewards = torch.zeros_like(inputs["log_prob"])
    rewards[:, 0] = torch.randn(len(rewards), generator=torch.Generator().manual_seed(1))
    given = {"token_level_rewards": rewards, "response_mask": inputs["response_mask"], "config": None,
             "index": np.array(list("aabbcc"), dtype=object)}  # fmt: skip
    return {name: exact(*get_adv_estimator_fn(name)(**given)) for name in ("rpg", "rpg_batchmean")}


def exact(*values: Any) -> list[Any]:
    """Return tensors as lists of their float32 values and other values as they are: JSON keeps every bit."""
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]


def measure() -> dict[str, Any]:
    """Return what this process's verl computes."""
    import transformers

    if not hasattr(transformers, "AutoModelForVision2Seq"):  # 0.6.1 was written for transformers 4, which had this name
        transformers.AutoModelForVision2Seq = transformers.AutoModelForImageTextToText  # type: ignore[attr-defined]
    import torch
    import verl  # which imports the plugin

    from rpg.verl_plugin.policy_loss import spec_from_actor_config

    generator = torch.Generator().manual_seed(0)
    shape = (len(RESPONSES), max(RESPONSES))
    log_prob = torch.randn(shape, generator=generator) * 0.5 - 1
    mask = torch.arange(shape[1])[None] < torch.tensor(RESPONSES)[:, None]
    inputs = {
        "log_prob": log_prob,
        "old_log_prob": log_prob + torch.randn(shape, generator=generator) * 0.3,
        "advantages": torch.randn((shape[0], 1), generator=generator).expand(shape).contiguous(),
        "response_mask": mask,
        "rollout_is_weights": torch.rand(shape, generator=generator) + 0.5,
    }
    inputs = {name: value if value is mask else value * mask for name, value in inputs.items()}
    readme = [*readme_overrides(), "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
              "actor_rollout_ref.actor.use_torch_compile=false"]  # fmt: skip
    config = actor_config(*readme)
    stronger = actor_config(*readme, "++actor_rollout_ref.actor.policy_loss.kl_coef=0.3")
    known = aggregations(stronger, inputs)
    return {
        "version": verl.__version__,  # a checkout has no metadata of a distribution
        "aggregations": known,
        "losses": losses(stronger, inputs, known),
        "estimators": estimators(inputs),
        "ppo_loss": actor_losses(stronger, inputs),
        "overrides": {name: str(spec_from_actor_config(name, config)) for name in [config.policy_loss.loss_mode]},
    }


def of(package: Path | None, entry_point: bool) -> dict[str, Any]:
    """Return `measure` of a new process. package: folder of an unpacked verl; None: this environment's."""
    environment = {name: value for name, value in os.environ.items() if name != "VERL_USE_EXTERNAL_MODULES"}
    environment["PYTHONPATH"] = os.pathsep.join([*([str(package)] if package else []), str(ROOT)])
    if not entry_point:
        environment["VERL_USE_EXTERNAL_MODULES"] = AUTOLOAD
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = [sys.executable, __file__, "--measure", out.name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{package or 'this environment'}:\n{done.stderr[-3000:]}")
        return json.load(out)


def cell(old: dict[str, Any] | None, new: dict[str, Any]) -> tuple[str, bool]:
    """Return the words for a comparison, and whether nothing differs. old: None if this verl has no such function."""
    if old is None:
        return "none", True
    equal = sum(old[key] == new[key] for key in old)
    return f"{equal} of {len(old)} equal", equal == len(old) > 0


def compare(version: str, package: Path, by_entry_point: bool, new: dict[str, Any]) -> tuple[str, bool]:
    """Return the table's row for the verl in a folder, and whether nothing differs. new: `of` this environment's."""
    old = of(package, by_entry_point)
    assert old["version"] == version, old["version"]
    # where verl's own aggregation differs, every loss does
    mine, theirs = old["aggregations"], new["aggregations"]
    same = [key for key, value in mine.items() if value == theirs[key]]
    others = sorted({key.split()[0] for key in mine.keys() - same})
    absent = [mode for mode in AGGREGATIONS if f"{mode} local" not in mine]
    words = [*(f"{mode} differs in verl" for mode in others), *(f"no {mode}" for mode in absent)]
    old["losses"] = {key: value for key, value in old["losses"].items() if key.partition(" ")[2] in same}
    parts = {part: cell(old[part], new[part]) for part in ("losses", "estimators", "ppo_loss", "overrides")}
    row = [version, "entry point" if by_entry_point else "variable"]
    row += [parts["losses"][0], ", ".join(words), *(parts[one][0] for one in ("estimators", "ppo_loss", "overrides"))]
    return f"|{'|'.join(row)}|", all(equal for _, equal in parts.values())


def table() -> tuple[str, bool]:
    """Return the Markdown table, and whether nothing differs."""
    new = of(None, entry_point=True)
    lines = [
        "|verl|found by|losses, gradients|other aggregations|estimators|`ppo_loss`|overrides|",
        "|---|---|---|---|---|---|---|",
    ]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for version in VERSIONS:
            package = Path(folder) / version
            with zipfile.ZipFile(wheel(version)) as archive:
                archive.extractall(package)
            line, equal = compare(version, package, version.startswith("0.9."), new)
            lines.append(line)
            good = good and equal
    return "\n".join(lines) + "\n", good


def main() -> int:
    """Print the table, or measure for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/plain_verl.md")
    parser.add_argument("--verl", type=Path, metavar="DIR", help="compare the verl of this checkout instead")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        args.measure.write_text(json.dumps(measure()))
        return 0
    if args.verl:
        version = (args.verl / "verl/version/version").read_text().strip()
        line, good = compare(version, args.verl.resolve(), False, of(None, entry_point=True))
        print(line)
        return 0 if good else 1
    made, good = table()
    print(made, end="")
    if args.write:
        page = PAGE.read_text()
        (old,) = re.findall(r"^\|verl\|found by\|.*?\n(?=\n)", page, re.DOTALL | re.MULTILINE)
        PAGE.write_text(page.replace(old, made))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
