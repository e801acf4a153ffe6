"""Print docs/gpu.md's table of `rpg plan` for every model and context; --into FILE puts it between its marks."""

import argparse
from pathlib import Path

from rpg.checks.estimate import GB, GPUS, PROMPT
from rpg.files.whole import write_whole
from rpg.launching.compose import compose_config, resolve
from rpg.launching.plan_command import made_for

BEGIN, END = "<!-- scripts/plan_table.py: begin -->\n", "<!-- scripts/plan_table.py: end -->\n"
ROWS = {
    "Qwen2.5 7B (Math, Instruct), 2k": ["model=qwen2.5-math-7b", "context=2k"],
    "Qwen3-4B, 2k": ["model=qwen3-4b", "context=2k"],
    "Qwen3-4B, 4k": ["model=qwen3-4b", "context=4k"],
    "Qwen3-4B, 8k": ["model=qwen3-4b", "context=8k"],
    "Qwen3-4B, 8k, `reference=fixed`": ["model=qwen3-4b", "context=8k", "reference=fixed"],
}
HEAD = (
    "| 8 x 80 GB | rollout | log-probs | update | weight sync | KV cache, sequences half-way (whole) | "
    "hours, 400 steps: H100 | A100 | checkpoints | host at load |\n|---|---|---|---|---|---|---|---|---|---|\n"
)


def row(name: str, overrides: list[str]) -> str:
    """One row, as Markdown."""
    config = resolve(compose_config([*overrides, "rpg.script=x"])).config
    plan, other = made_for(config, GPUS["h100"]), made_for(config, GPUS["a100"])
    size = {phase.name: f"{phase.size / GB:.1f}" for phase in plan.phases}
    half = PROMPT + config["data"]["max_response_length"] / 2
    cells = [
        *(size[phase] for phase in ("rollout", "log-probs", "update", "weight synchronisation")),
        f"{plan.kv_tokens / half:.0f} ({plan.kv_tokens / plan.length:.0f})",
        *(" to ".join(f"{400 * seconds / 3600:.0f}" for seconds in each.step_seconds) for each in (plan, other)),
        f"{plan.checkpoints * plan.checkpoint / GB:.0f} GB",
        f"{plan.host.size / GB:.0f} GB",
    ]
    return f"| {name} | {' | '.join(cells)} |\n"


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FILE", help="a page with the two marks")
    into = parser.parse_args().into
    table = HEAD + "".join(row(name, overrides) for name, overrides in ROWS.items())
    if into is None:
        print(table)
        return
    before, rest = into.read_text().split(BEGIN)
    write_whole(into, before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
