"""Write the tables of `rpg plan` into docs/gpu.md (every model and context) and docs/train_your_own.md (one GPU).

python scripts/plan_table.py
"""

from pathlib import Path

from rpg.config.compose import compose_config, resolve
from rpg.plan.estimate import GB, GPUS, PROMPT
from rpg.plan.run_plan import chosen, made_for
from rpg.registry.scripts import SMALL, overrides, parse

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
MEMORIES = (24, 48, 80)
ONE_GPU_HEAD = "| script | 24 GB | 48 GB | 80 GB |\n|---|---|---|---|\n"


def one_gpu_cells(name: str) -> str:
    """Return, for each GPU size, a script's largest phase and the hours of 200 steps."""
    config = compose_config([f"rpg.script={name}", *overrides(parse(name))])
    cells = []
    for memory in MEMORIES:
        config.rpg.gpu_memory = memory
        plan = made_for(resolve(config).config, chosen(None, memory))
        most = max(plan.phases, key=lambda phase: phase.size)
        fast, slow = (200 * seconds / 3600 for seconds in plan.step_seconds)
        size = f"{most.size / GB:.1f} GB ({most.name})"
        cells.append(f"{size}, {fast:.0f} to {slow:.0f} h" if plan.fits else f"does not fit: {size}")
    return " | ".join(cells)


def one_gpu() -> str:
    """Return the table of GRPO's scripts, which have a reference and take the longest; equal rows are merged."""
    rows: dict[str, list[str]] = {}
    for name in (f"grpo_{model}{end}" for end in ("", "_lora") for model in SMALL):
        rows.setdefault(one_gpu_cells(name), []).append(f"`{name}`")
    return ONE_GPU_HEAD + "".join(f"| {', '.join(names)} | {cells} |\n" for cells, names in rows.items())


def row(name: str, groups: list[str]) -> str:
    """Return one row as Markdown."""
    config = resolve(compose_config([*groups, "rpg.script=x"])).config
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
    """Write both tables into their pages."""
    for page, table in {
        "docs/gpu.md": HEAD + "".join(row(name, groups) for name, groups in ROWS.items()),
        "docs/train_your_own.md": one_gpu(),
    }.items():
        before, rest = Path(page).read_text().split(BEGIN)
        Path(page).write_text(before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
