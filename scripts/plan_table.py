"""Print docs/gpu.md's table of `rpg plan` for every model and context; --into FILE writes it between its marks there.

A process a row, as each traces a process group of its own; some 25 seconds of processor time a row.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rpg.files.whole import write_whole
from rpg.launching.compose import compose_config

BEGIN, END = "<!-- scripts/plan_table.py: begin -->\n", "<!-- scripts/plan_table.py: end -->\n"
ROWS = {
    "Qwen2.5 7B (Math, Instruct), 2k": ["model=qwen2.5-math-7b", "context=2k"],
    "Qwen3-4B, 2k": ["model=qwen3-4b", "context=2k"],
    "Qwen3-4B, 4k": ["model=qwen3-4b", "context=4k"],
    "Qwen3-4B, 8k": ["model=qwen3-4b", "context=8k"],
    "Qwen3-4B, 8k, `reference=fixed`": ["model=qwen3-4b", "context=8k", "reference=fixed"],
}
HEAD = (
    "| 8 x 80 GB | rollout | old log-probs | update | weight sync | KV cache, sequences half-way (whole) | "
    "hours, 400 steps: H100 | A100 | checkpoints | host at load |\n|---|---|---|---|---|---|---|---|---|---|\n"
)
ROW = """
import json, sys
from rpg.checks.step_time import FAST, PROMPT, SLOW, step
from rpg.checks.estimate import GPUS, checkpoint, checkpoints_at_once, kv_tokens
from rpg.launching.plan_command import plan
made = plan(json.load(sys.stdin), GPUS["h100"])
size = {phase.name: f"{phase.size / 1e9:.1f}" for phase in made.phases}
tokens, data = kv_tokens(made.shape, made.config, made.gpu.memory), made.config["data"]
half, whole = PROMPT + data["max_response_length"] / 2, data["max_prompt_length"] + data["max_response_length"]
hours = [" to ".join(f"{400 * step(made.shape, made.config, GPUS[gpu], made.devices, rates) / 3600:.0f}"
                     for rates in (FAST, SLOW)) for gpu in ("h100", "a100")]
disk = checkpoints_at_once(made.config) * checkpoint(made.shape, made.config).size
print(json.dumps([size["rollout"], size["old log-probs"], size["update"], size["weight synchronisation"],
                  f"{tokens / half:.0f} ({tokens / whole:.0f})", *hours, f"{disk / 1e9:.0f} GB",
                  f"{made.host.size / 1e9:.0f} GB"]))
"""


def table() -> str:
    """The rows, as Markdown."""
    from omegaconf import OmegaConf

    lines = [HEAD]
    for name, overrides in ROWS.items():
        config = OmegaConf.to_container(compose_config([*overrides, "rpg.script=x"]), resolve=True)
        done = subprocess.run(
            [sys.executable, "-c", ROW], input=json.dumps(config), capture_output=True, text=True, check=True
        )
        lines.append(f"| {name} | {' | '.join(json.loads(done.stdout))} |\n")
    return "".join(lines)


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FILE", help="a page with the two marks")
    into = parser.parse_args().into
    made = table()
    if into is None:
        print(made)
        return
    before, rest = into.read_text().split(BEGIN)
    write_whole(into, before + BEGIN + made + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
