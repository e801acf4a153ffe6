"""Which policy each token is weighed against: on the real stack, recomputed from checkpoints with transformers."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.e2e import both_updates, loss_records, short_run
from tests.e2e.conftest import TOY
from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]

# ---- async, pi_old=behavior

# Half of all answers are right, so that there is something to learn in every group.
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    right = sum(map(ord, solution_str)) % 2
    return {"score": 2.0 * right - 1.0, "acc": float(right), "pred": ""}
"""
# Responses that do not end, of which 64 are written at a time: some are always half done when the weights change.
ASYNC = [
    "trainer.v1.trainer_mode=colocate_async",
    "algorithm.rollout_correction.bypass_mode=true",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    "actor_rollout_ref.rollout.ignore_eos=true",
    "actor_rollout_ref.rollout.max_num_seqs=64",
    "data.max_response_length=128",
    # one optimizer step a batch: the policy that is trained is then in a checkpoint, for every token
    "actor_rollout_ref.actor.ppo_mini_batch_size=32",
    "actor_rollout_ref.actor.optim.lr_warmup_steps=0",  # with it verl's first step has a learning rate of 0
    "trainer.save_freq=1",
    f"actor_rollout_ref.model.external_lib={loss_records.__name__}",
]
# Of a log-prob: vLLM's float32 kernels against transformers' in float64 sums; 1.7e-4 to 3.0e-4 seen as the largest of
# 32,768 tokens, whose log-probs reach -15. The present policy's own are within 2e-5. Another version of the weights is
# off by 1 to 12 somewhere in a response.
SAME = 1e-3


class Policies:
    """The policy after n steps, by n, from the run's checkpoints; 0 is the model that it began with."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._known: dict[int, torch.nn.Module] = {}

    def log_probs(self, version: int, rows: list[dict]) -> torch.Tensor:
        """(responses, tokens) of responses of one length, in float64."""
        if version not in self._known:
            model = AutoModelForCausalLM.from_pretrained(TOY / "model", dtype=torch.float32)
            if version:
                model.load_state_dict(short_run.actor(self._directory, version))
            self._known[version] = model.eval()
        ids = [torch.cat([row["prompts"], row["responses"]]) for row in rows]
        with torch.no_grad():  # padded on the right, where a causal model does not look
            logits = self._known[version](torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)).logits
        found = []
        for row, all_ids, some in zip(rows, ids, logits, strict=True):
            of_response = some[len(row["prompts"]) - 1 : len(all_ids) - 1].double().log_softmax(-1)
            found.append(of_response.gather(-1, row["responses"][:, None]).squeeze(-1))
        return torch.stack(found)


def stacked(rows: list[dict], name: str) -> torch.Tensor:
    return torch.stack([row[name] for row in rows]).double()


def written_by(rollout: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """How many tokens of each response are the earlier policy's; the rest are the later one's. All (responses, tokens).

    Where the weights changed is nowhere recorded: it is the place that leaves the smallest largest error.
    """
    errors_first = torch.nn.functional.pad((rollout - first).abs().cummax(-1).values, (1, 0))
    errors_last = torch.nn.functional.pad((rollout - last).abs().flip(-1).cummax(-1).values.flip(-1), (0, 1))
    return torch.maximum(errors_first, errors_last).argmin(-1)


def test_the_ratio_of_every_token_is_against_the_policy_that_wrote_it(tmp_path):
    """colocate_async, behavior: each logged ratio is exp(log pi_theta - log mu) of two checkpoints."""
    directory, records = tmp_path / "run", tmp_path / "records"
    records.mkdir()
    (tmp_path / "reward.py").write_text(REWARD)
    reward = [f"reward.custom_reward_function.path={tmp_path / 'reward.py'}"]
    reward.append("~reward.custom_reward_function.reward_kwargs.judge")
    metrics = short_run.run(directory, 3, *ASYNC, *reward, **{loss_records.DIRECTORY: str(records)})
    policies, partial = Policies(directory), 0
    for step, logged in enumerate(metrics, start=1):
        rows = torch.load(records / f"{step}.pt", weights_only=True)
        assert len(rows) == 256
        rollout, ratio = stacked(rows, "rollout_log_probs"), stacked(rows, "ratio")
        assert torch.equal(rollout, stacked(rows, "old_log_probs"))
        first, last = (torch.tensor([row[f"{which}_global_steps"] for row in rows]) for which in ("min", "max"))
        versions = sorted({*first.tolist(), *last.tolist(), step - 1})
        by_version = {version: policies.log_probs(version, rows) for version in versions}
        table = torch.stack([by_version[version] for version in versions])  # (versions, responses, tokens)
        each = torch.arange(len(rows))
        of_first, of_last = (table[torch.tensor([versions.index(v) for v in vs]), each] for vs in (first, last))
        split = written_by(rollout, of_first, of_last)
        position = torch.arange(rollout.shape[1])
        mu = torch.where(position < split[:, None], of_first, of_last)
        assert (rollout - mu).abs().max() < SAME
        # neither policy alone has written them; by chance some tokens have much the same probability under both
        off = [(rollout - alone).abs().amax(-1) for alone in (of_first, of_last)]
        halves = int((torch.minimum(*off) > 10 * SAME).sum())
        partial += halves
        log_w = by_version[step - 1] - mu
        error = (ratio.log() - log_w).abs().max()
        print(f"step {step}: {halves} of two of {versions}, w up to {ratio.max():.1f}, log w off by {error:.1e}")
        assert error < SAME
        w = log_w.exp()
        assert logged["training/off_policy/ess"] == pytest.approx(
            (w.mean() ** 2 / w.square().mean()).item(), rel=3 * SAME
        )
        assert logged["training/off_policy/kl"] == pytest.approx(-log_w.mean().item(), abs=SAME)
        assert logged["training/off_policy/trajectory_spans/max"] == int((last - first).max()) + 1
    assert partial > 0
    assert metrics[-1]["training/off_policy/trajectory_staleness/mean"] > 0
    assert ratio.max() > 2  # which a ratio against recomputed log-probs, one optimizer step a batch, never is


# ---- sync


def test_sync_behavior_is_sync_recomputed(tmp_path):
    """Where rollout and actor agree, one batch moves the weights alike with either pi_old: 1e-4 of the way.

    4e-6 to 1.3e-5 seen. With verl's warm-up, whose first step has a learning rate of 0 and fills AdamW's moments:
    without it the first step moves every weight by the sign of its gradient, rounding's own gradients as far as any
    other, and 4e-4 of the way is between the two.
    """
    directory, saved = tmp_path / "run", tmp_path / "saved"
    saved.mkdir()
    external = f"actor_rollout_ref.model.external_lib={both_updates.__name__}"
    metrics = short_run.run(directory, 4, external, **{both_updates.DIRECTORY: str(saved)})
    ways = []
    for step, logged in enumerate(metrics, start=1):
        assert abs(logged["rollout_corr/kl"]) < ROLLOUT_KL
        weights = torch.load(saved / f"{step}.pt", weights_only=True)
        before, behavior, recomputed = (
            torch.cat([tensor.flatten() for tensor in weights[name].values()]).double()
            for name in ("before", "behavior", "recomputed")
        )
        ways.append((recomputed - before).norm().item())
        apart = (behavior - recomputed).norm().item()
        print(f"step {step}: {apart:.1e} apart after a way of {ways[-1]:.1e}")
        assert apart <= 1e-4 * ways[-1]
        assert (apart > 0) == (ways[-1] > 0)  # there were two updates
    assert min(ways[1:]) > 1e-2
