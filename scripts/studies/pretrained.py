"""SmolLM2-135M on sums up to 20 and two tasks of reasoning-gym: held-out accuracy and KL to the initial model."""

from pathlib import Path

from scripts.studies.common import load, markdown, picture

KL = "actor/rpg_kl_k1"
GYM = ("chain_sum", "needle_haystack")


def tables() -> list[str]:
    """Return Markdown, a row a seed: accuracy of sampled and greedy answers, and KL; of GYM, accuracy by validation."""
    runs, metrics = load("pretrained")
    validated = metrics.accuracy.dropna()
    greedy = validated.groupby("run").last()
    rows = []
    for run, seed in runs.seed[runs.arm == "smollm2"].astype(int).items():
        accuracy, kl = validated[run], metrics[KL][run]
        fall = max(0.0, -accuracy.diff().min())
        shares = accuracy.iloc[0], accuracy.iloc[-1], fall, greedy[f"greedy-seed{seed}"]
        kls = kl.median(), kl.max()
        rows.append([str(seed), *(f"{share:.3f}" for share in shares), *(f"{kl:.2f}" for kl in kls)])
    initial = greedy["untrained-seed0"]
    accuracies = ["accuracy before", "after 30 steps", "largest fall", f"greedy (before: {initial:.3f})"]
    head = ["seed", *accuracies, "median KL", "highest KL"]
    tables = [markdown(head, rows)]
    for task in GYM:
        seeds = runs.seed[runs.arm == task].astype(int)
        shares = validated[seeds.index].unstack()
        by_step = [
            [str(seed), *(f"{share:.3f}" if share == share else "" for share in shares.loc[run])]
            for run, seed in seeds.items()
        ]
        tables.append(markdown([f"{task}, seed", *(f"step {step}" for step in shares.columns)], by_step))
    return tables


def draw(out: Path) -> None:
    """Draw pretrained.png: accuracy and KL by step, a line a seed."""
    runs, metrics = load("pretrained")
    seeds = runs.index[runs.arm == "smollm2"]
    shape = {"figsize": (6, 5.2), "sharex": True, "height_ratios": [2, 1]}
    with picture(out / "pretrained.png", 2, **shape) as (accuracies, kls):
        for run in seeds:
            accuracy, kl = (metrics.loc[run][name].dropna() for name in ("accuracy", KL))
            accuracies.plot(accuracy, marker="o", color="tab:blue", alpha=0.7)
            kls.plot(kl, color="tab:red", alpha=0.7)
        accuracies.set(ylabel="held-out accuracy", ylim=(0, 1))
        title = "SmolLM2-135M on sums up to 20: RPG-REINFORCE-URKL with clip"
        accuracies.set_title(f"{title}, {len(seeds)} seeds", fontsize=9)
        kls.set(xlabel="step", ylabel="KL to the initial\nmodel (nats/token)")
