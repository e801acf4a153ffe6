"""verl's bootstrap of a validation's metrics and the plugin's, the same numbers, by answers to a problem.

    python scripts/bench_validation.py [--answers 1024]

In turn, on one core; variables as the toy task's judge has them, three numbers and one text.
"""

import argparse
import time

import numpy as np
from verl.trainer.ppo import metric_utils

from rpg.verl_plugin import bootstrap


def variables(count: int) -> dict[str, list]:
    """What a judge says of so many answers."""
    draw = np.random.RandomState(0)
    right = draw.rand(count) < 0.4
    return {
        "acc": right.tolist(),
        "acc_success_only": right.tolist(),
        "score": np.where(right, draw.rand(count), -1.0).tolist(),
        "pred": [str(number) for number in draw.randint(100, size=count)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=1024, help="in all")
    count = parser.parse_args().answers
    bootstraps = {"verl": metric_utils.bootstrap_metric, "here": bootstrap.bootstrap_metric}
    print("| answers to a problem | verl | here |\n|---|--:|--:|")
    for answers in (2, 4, 8, 32):
        uids, cells, results = [f"{number // answers}" for number in range(count)], [], []
        for function in bootstraps.values():
            metric_utils.bootstrap_metric = function
            began = time.perf_counter()
            results.append(metric_utils.process_validation_metrics(["sums"] * count, uids, variables(count)))
            cells.append(f"{time.perf_counter() - began:.2g}")
        assert results[0] == results[1]
        print(f"| {answers} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
