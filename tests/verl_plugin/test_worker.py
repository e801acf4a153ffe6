"""Our worker with verl's FSDP engines, optimizer, losses and checkpoints on the toy model, without Ray and vLLM."""

import contextlib
import io
import math

import pytest
import torch
from real_worker import batch, build_worker, of_update, response_log_probs, toy_tokenizer, weights
from tiny_fsdp import on_ranks

from scripts import toy_model

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

MODES = {"old": ["reference=old"], "every_k": ["reference=every_k", "rpg.reference.every_k=3"]}
OPTIMIZERS = {"adamw": ["optim=toy"], "schedule_free": ["optim=schedulefree", "actor_rollout_ref.actor.optim.lr=3e-3"]}
ROWS, PROMPT, RESPONSE = 16, 6, 10
ASK = {"calculate_entropy": False, "compute_loss": False}


@pytest.fixture(scope="module", autouse=True)
def model(tmp_path_factory):
    """Return the untrained toy model, independent of files of a demo."""
    directory = tmp_path_factory.mktemp("model")
    tokenizer = toy_tokenizer()
    toy_model.build_model(tokenizer, toy_model.ToyModelSettings()).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODEL_PATH", str(directory))
        yield directory


class Training:
    """Iterations as in the trainer: old log-probs, reference log-probs, update."""

    def __init__(self, mode: str, optimizer: str, more: tuple[str, ...] = ()):
        def prepare(section) -> None:
            section.actor.ppo_micro_batch_size_per_gpu = ROWS // 2 // torch.distributed.get_world_size()
            for name in ("rollout", "ref"):
                section[name].log_prob_micro_batch_size_per_gpu = ROWS // torch.distributed.get_world_size()

        # verl reads the parts off this name
        role = "actor" if mode == "old" else "actor_ref"
        overrides = ["profile=cpu", *MODES[mode], *OPTIMIZERS[optimizer], *more]
        self.worker = build_worker(*overrides, role=role, prepare=prepare)
        self.mode, self.metrics = mode, []

    def data(self, iteration: int, fields: dict | None = None, **settings):
        """Return this rank's rows of a batch; the tokens do not depend on the number of ranks."""
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        tokens = torch.randint(5, 300, (ROWS, PROMPT + RESPONSE), generator=torch.Generator().manual_seed(iteration))
        # the ranks of a mini-batch share it; each takes its rows of the first half and of the second
        mine = tokens[rank::ranks]
        return batch(mine, [PROMPT] * len(mine), fields, **settings)

    def iterate(self, iteration: int, spoil=lambda fields: None) -> None:
        """Run an iteration. spoil: changes the log-probs before the update, by field and row."""
        calls = {"old_log_probs": self.worker.compute_log_prob}
        if self.mode != "old":
            calls["ref_log_prob"] = self.worker.compute_ref_log_prob
        fields = {name: response_log_probs(call, self.data(iteration, **ASK)) for name, call in calls.items()}
        spoil(fields)
        update = self.data(iteration, fields, **of_update(ROWS // 2))
        self.metrics.append(dict(self.worker.update_actor(update)["metrics"]))

    def weights(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return the gathered weights of the actor, and of the reference if present."""
        engines = {"actor": self.worker.actor.engine}
        if self.mode != "old":
            engines["reference"] = self.worker.ref.engine
        return {role: weights(engine) for role, engine in engines.items()}


def resume_with_other_settings(directory: str) -> None:
    """Resume with other settings of the optimizer (rpg.resume_changed=true)."""
    optim = "actor_rollout_ref.actor.optim"
    for optimizer in OPTIMIZERS:
        path, training = f"{directory}/{optimizer}/global_step_1/actor", Training("old", optimizer)
        training.iterate(0)
        training.worker.save_checkpoint(path, global_step=1)
        more = (f"{optim}.lr=1e-9", f"{optim}.weight_decay=0.5", f"++{optim}.override_optimizer_config.foreach=false")
        changed = Training("old", optimizer, more)
        changed.worker.load_checkpoint(path)
        changed.iterate(1)
        assert 0 < changed.metrics[-1]["lr"][0] <= 1e-9, optimizer  # verl: the checkpoint's
        (group,) = changed.worker.actor.engine.optimizer.param_groups
        assert (group["weight_decay"], group["foreach"]) == (0.5, False)


def test_a_resumed_run_has_its_own_settings_of_the_optimizer(tmp_path):
    """test_four_ranks.py resumes with the same ones, to the bit."""
    on_ranks(1, resume_with_other_settings, str(tmp_path))


def keep_and_restore(case: tuple[str, str]) -> None:
    """A batch in two parts, with the second one's anchor as in PPOTrainerSeparateAsync._compute_old_log_prob."""
    training = Training(*case)
    worker = training.worker

    def log_probs() -> torch.Tensor:
        return worker.compute_log_prob(training.data(9, **ASK))["log_probs"].values()

    training.iterate(0)  # with AdamW at a learning rate of 0, by verl's warm-up
    worker.save_model_to_cpu(0)
    anchor, at_anchor = training.weights()["actor"], log_probs()
    training.iterate(1)
    present, now = training.weights()["actor"], log_probs()
    assert not torch.equal(at_anchor, now)
    worker.save_model_to_cpu(1)
    worker.restore_model_from_cpu(0)
    torch.testing.assert_close(log_probs(), at_anchor, atol=0, rtol=0)
    torch.testing.assert_close(training.weights()["actor"], anchor, atol=0, rtol=0)
    worker.restore_model_from_cpu(1)
    worker.clear_cpu_model(1)
    torch.testing.assert_close(log_probs(), now, atol=0, rtol=0)
    torch.testing.assert_close(training.weights()["actor"], present, atol=0, rtol=0)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("case", [("old", "adamw"), ("every_k", "schedule_free")], ids="-".join)
def test_the_anchor_of_a_batch_in_parts(ranks, case):
    on_ranks(ranks, keep_and_restore, case)


def spoil_the_first_row(fields) -> None:
    """Spoil a token of the first mini-batch on one rank."""
    if torch.distributed.get_rank() == 0:
        fields["old_log_probs"][0] = torch.where(torch.arange(RESPONSE) == 2, math.nan, fields["old_log_probs"][0])


def skip_and_stop(case: tuple[str, str]) -> None:
    """Run iterations: one of two mini-batches has a NaN, three times; then both."""
    steps = []
    training = Training(*case)
    engine = training.worker.actor.engine
    take = engine.optimizer.step
    engine.optimizer.step = lambda *args, **kwargs: steps.append(take(*args, **kwargs))
    for iteration in range(3):
        training.iterate(iteration, spoil_the_first_row)
        metrics = training.metrics[-1]
        assert metrics["skipped_steps"] == 1.0
        assert len(steps) == iteration + 1
        ours = [value for name, value in metrics.items() if name.startswith(("actor/rpg_", "training/off_policy/"))]
        assert all(map(math.isfinite, ours)), metrics
    if case[0] == "every_k":
        assert training.worker.actor.reference.state.age <= 3  # an optimizer step that was not taken is none
        assert math.isfinite(training.worker.actor.reference.state.kl_ema)
    weights = training.weights()["actor"]

    def spoil_all(fields):
        fields["old_log_probs"][:] = [row + math.inf for row in fields["old_log_probs"]]

    training.iterate(3, spoil_all)
    assert training.metrics[-1]["skipped_steps"] == 2.0
    rounding = 1e-9 if case[1] == "schedule_free" else 0  # of its way from x to y and back
    torch.testing.assert_close(training.weights()["actor"], weights, atol=rounding, rtol=0)
    with pytest.raises(FloatingPointError, match=r"3 optimizer steps in a row .*rpg\.nonfinite_limit=3"):
        training.iterate(4, spoil_all)
    torch.testing.assert_close(training.weights()["actor"], weights, atol=rounding, rtol=0)


def skip_and_tell(case: tuple[str, str]) -> None:
    """Run skip_and_stop: every rank warns of three steps of one mini-batch, then of three in a row."""
    with contextlib.redirect_stdout(io.StringIO()) as said:  # this process may be older than a capture of the test's
        skip_and_stop(case)
    assert said.getvalue().count("warning: step ") == 6
    if torch.distributed.get_rank() == 0:
        assert said.getvalue().count("numbers of NaN or Inf in rank 0's rows: {'old_log_probs': 1,") == 3


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("case", [("old", "adamw"), ("every_k", "schedule_free")], ids="-".join)
def test_a_step_that_is_not_finite_is_left_out(ranks, case):
    """On all ranks, although only one has the NaN; three in a row end the run without changing the weights."""
    on_ranks(ranks, skip_and_tell, case)


def adapt_the_head() -> None:
    def prepare(section) -> None:
        section.model.target_modules = ["q_proj", "lm_head"]
        for part, name in (("actor", "ppo"), ("rollout", "log_prob"), ("ref", "log_prob")):
            section[part][f"{name}_micro_batch_size_per_gpu"] = 1

    build_worker("profile=cpu", "optim=toy", "adapter=lora", prepare=prepare)


def test_an_adapter_of_the_head_that_the_fused_kernel_would_leave_out_is_refused():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="leave lm_head out of"):
        on_ranks(1, adapt_the_head)
