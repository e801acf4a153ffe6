"""scripts/cluster: the RayJob against KubeRay's schema; tests/e2e/test_cluster.py runs the SLURM file."""

import json
from pathlib import Path

import jsonschema
import yaml

from rpg.registry import scripts

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "rayjob_schema.json").read_text())


def rayjob() -> dict:
    return yaml.safe_load((ROOT / "scripts/cluster/rayjob.yaml").read_text())


def test_the_rayjob_is_what_kuberay_takes():
    jsonschema.validate(rayjob(), SCHEMA)


def test_the_rayjob_starts_a_script_with_the_nodes_and_shared_memory_that_it_needs():
    spec = rayjob()["spec"]
    rpg, train, name, *_ = spec["entrypoint"].split()
    assert (rpg, train, scripts.find(name).name) == ("rpg", "train", name)
    [workers] = spec["rayClusterSpec"]["workerGroupSpecs"]
    variables = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
    assert variables["NNODES"] == str(workers["replicas"])
    assert variables["RPG_IN_JOB"] == "1"
    for group in (spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        named = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: named[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
