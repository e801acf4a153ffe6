"""Pack the finished runs of a study into one parquet file: python -m scripts.studies.pack RUNS FILE

RUNS holds <any folders>/<run>/metrics.jsonl. The file has one line per run and step: run, method, METRICS, the
accuracy of a validation, and `settings`, as JSON: the run's commit and configuration. Runs that only FILE has, of
another machine, stay in it.
"""

import json
import sys
from pathlib import Path

import pandas
import pyarrow
from pyarrow import parquet

from rpg.dotted import leaves
from rpg.results.runs import load_runs

METRICS = (
    "critic/score/mean", "critic/score_before_filtering/mean", "actor/entropy", "actor/rpg_kl", "actor/rpg_kl_k1",
    "actor/grad_norm", "actor/pg_clipfrac", "response_length/mean", "training/off_policy/ess", "training/off_policy/kl",
    "reference/kl_ema", "training/filter_groups/evicted_samples", "training/filter_groups/discarded_surplus_samples",
    "timing_s/gen", "timing_s/old_log_prob", "timing_s/ref", "timing_s/update_actor", "timing_s/step",
)  # fmt: skip
# paths on the machine that made a run
NOT_SETTINGS = ("trainer.default_local_dir", "trainer.validation_data_dir", "trainer.rollout_data_dir", "ray_kwargs")


def is_accuracy(metric: str) -> bool:
    """Return whether a metric is the mean accuracy of a validation."""
    return metric.startswith("val-core/") and "/acc/mean@" in metric


def main() -> None:
    """Write the file."""
    source, target = map(Path, sys.argv[1:])
    root = f"{Path.cwd()}/"
    loaded = load_runs([source])
    for run in (run for run in loaded if run.steps_left):
        print(f"left out: {run.directory}: unfinished", file=sys.stderr)
    lines, settings = [], {}
    for run in sorted((run for run in loaded if not run.steps_left), key=lambda run: str(run.directory)):
        # `rpg reproduce` puts runs into folders named runs
        name = "/".join(folder for folder in run.directory.relative_to(source).parts if folder != "runs")
        environment = json.loads((run.directory / "environment.json").read_text())
        settings[name] = {"commit": environment["git_commit"]} | {
            key: value.replace(root, "") if isinstance(value, str) else value
            for key, value in leaves(run.config)
            if not key.startswith(NOT_SETTINGS)
        }
        kept = {key: "accuracy" if is_accuracy(key) else key for key in run.frame if key in METRICS or is_accuracy(key)}
        metrics = run.frame[[*kept]].rename(columns=kept)
        lines += [{"run": name, "method": run.method, "step": step, **row} for step, row in metrics.iterrows()]
    table = pandas.DataFrame(lines)
    table["settings"] = table.run.map({run: json.dumps(own, sort_keys=True) for run, own in settings.items()})
    numbers = table.columns.difference(["run", "method", "settings", "step"])
    table[numbers] = table[numbers].astype("float32")
    if target.exists():
        earlier = pandas.read_parquet(target)
        earlier = earlier[~earlier.run.isin(table.run)]
        print(f"{target}: {earlier.run.nunique()} other runs stay in it", file=sys.stderr)
        table = pandas.concat([earlier, table]).sort_values(["run", "step"], ignore_index=True)
    packed = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    # one page for the settings, which are nearly equal: those of a hundred runs then take 60 KB
    parquet.write_table(packed, target, compression="zstd", compression_level=19, dictionary_pagesize_limit=2**25)


if __name__ == "__main__":
    main()
