"""Pack a study's runs into three small files, and unpack them into run directories.

python scripts/studies/compact.py pack RUNS STUDY      RUNS/<any folders>/<run>/metrics.jsonl -> STUDY
python scripts/studies/compact.py unpack STUDY RUNS    run directories for `rpg table` and `rpg plot`

metrics.csv has one line per run and step, with METRICS and validations; runs.csv one line per run, with its method, its
commit and the settings that differ between runs; settings.yaml the settings that all runs share.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pandas
import yaml

from rpg.dotted import leaves
from rpg.results.run_settings import put
from rpg.results.runs import load_runs

METRICS = (
    "critic/score/mean",
    "critic/score_before_filtering/mean",
    "actor/entropy",
    "actor/grad_norm",
    "actor/pg_clipfrac",
    "response_length/mean",
    "training/off_policy/ess",
    "training/off_policy/kl",
    "training/off_policy/trajectory_staleness/mean",
    "training/filter_groups/evicted_samples",
    "training/filter_groups/discarded_surplus_samples",
    "timing_s/step",
)
# paths on the machine that made a run
NOT_SETTINGS = ("trainer.default_local_dir", "trainer.validation_data_dir", "trainer.rollout_data_dir", "ray_kwargs")


def pack(source: Path, out: Path) -> None:
    """Write metrics.csv, runs.csv and settings.yaml of the finished runs below `source`."""
    root = Path.cwd()
    runs, metrics, settings = [], [], {}
    loaded, _ = load_runs([source], lambda metric: metric in METRICS or metric.startswith("val-core/"))
    finished = [run for run in loaded if not run.stopped_early]
    for run in sorted(finished, key=lambda run: str(run.directory)):
        folders = run.directory.relative_to(source).parts
        name = "/".join(
            folder for folder in folders if folder != "runs"
        )  # `rpg reproduce` puts runs into folders of this name
        environment = json.loads((run.directory / "environment.json").read_text())
        runs.append({"run": name, "method": run.method, "commit": environment["git_commit"]})
        settings[name] = {
            key: value.replace(f"{root}/", "") if isinstance(value, str) else value
            for key, value in leaves(run.config)
            if not key.startswith(NOT_SETTINGS)
        }
        for step, values in run.metrics.iterrows():
            metrics.append({"run": name, "step": step, **values.dropna().to_dict()})
    shared: dict[str, Any] = {}
    for key in dict.fromkeys(key for each in settings.values() for key in each):
        values = [each.get(key) for each in settings.values()]
        if all(value == values[0] for value in values):
            put(shared, key, values[0])
            continue
        for row, value in zip(runs, values, strict=True):
            row[key] = json.dumps(value)
    out.mkdir(parents=True, exist_ok=True)
    pandas.DataFrame(runs).to_csv(out / "runs.csv", index=False, lineterminator="\n")
    pandas.DataFrame(metrics).to_csv(out / "metrics.csv", index=False, float_format="%.7g", lineterminator="\n")
    (out / "settings.yaml").write_text(yaml.safe_dump(shared, sort_keys=False))


def runs_of(study: Path) -> pandas.DataFrame:
    """Return one line per run, indexed by its name, with settings as values."""
    table = pandas.read_csv(study / "runs.csv", index_col="run", dtype=str, keep_default_na=False)
    for key in table.columns:
        if "." in key:
            table[key] = table[key].map(json.loads)
    return table


def metrics_of(study: Path) -> pandas.DataFrame:
    """Return one line per run and step; a metric that was not logged is NaN."""
    return pandas.read_csv(study / "metrics.csv", index_col=["run", "step"])


def unpack(study: Path, out: Path) -> None:
    """Write metrics.jsonl and config.yaml of every run into a directory of its name."""
    metrics = metrics_of(study)
    config = yaml.safe_load((study / "settings.yaml").read_text())
    for name, row in runs_of(study).iterrows():
        directory = out / str(name)
        directory.mkdir(parents=True)
        for key in row.index:
            if "." in key:
                put(config, key, row[key] if row[key] == row[key] else None)  # pandas reads null as NaN
        (directory / "config.yaml").write_text(yaml.dump(config, Dumper=yaml.CSafeDumper))
        with open(directory / "metrics.jsonl", "w") as lines:
            for step, values in metrics.loc[name].iterrows():
                lines.write(json.dumps({"step": step, "data": values.dropna().to_dict()}) + "\n")


if __name__ == "__main__":
    command, source, target = sys.argv[1:]
    {"pack": pack, "unpack": unpack}[command](Path(source), Path(target))
