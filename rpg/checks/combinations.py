"""Numbers that are in their range, each by itself, and do not fit together."""

from collections.abc import Iterator

from rpg.checks.finding import Finding, Run, check
from rpg.checks.schema import ACTOR, ROLLOUT

BATCH = "data.train_batch_size"
MINI_BATCH = f"{ACTOR}.ppo_mini_batch_size"
DEVICES = ("trainer.n_gpus_per_node", "trainer.nnodes")


@check("mini-batches", "the mini-batch divides the batch; verl fills up with made samples otherwise", BATCH, MINI_BATCH)
def mini_batches(run: Run) -> Iterator[Finding]:
    """verl 0.9.1 pads the batch to whole mini-batches of n answers each (PPOTrainer._get_required_batch_multiple)."""
    batch, mini = run.get(BATCH), run.get(MINI_BATCH)
    if batch % mini:
        wrong = f"does not divide {BATCH}={batch}; verl would fill the batch up with samples that it makes"
        yield Finding(MINI_BATCH, mini, wrong, "set one to a multiple of the other, the mini-batch the smaller")


SP = f"{ACTOR}.ulysses_sequence_parallel_size"


@check("ranks", "the ranks divide the answers of a mini-batch, and sequence parallelism divides the ranks",
       MINI_BATCH, f"{ROLLOUT}.n", SP, *DEVICES)  # fmt: skip
def ranks(run: Run) -> Iterator[Finding]:
    """As above: the batch is padded to the ranks as well."""
    parallel, devices = run.get(SP), run.devices
    if devices % parallel:
        yield Finding(SP, parallel, f"does not divide the {devices} GPUs of trainer.n_gpus_per_node x trainer.nnodes")
        return
    answers = run.get(MINI_BATCH) * run.get(f"{ROLLOUT}.n")
    if answers % (devices // parallel):
        wrong = (
            f"times {ROLLOUT}.n={run.get(f'{ROLLOUT}.n')} are {answers} answers, which {devices // parallel} ranks do "
            "not divide; verl would fill the batch up with samples that it makes"
        )
        yield Finding(MINI_BATCH, run.get(MINI_BATCH), wrong, "raise it, or take fewer GPUs")


REPLICA = (f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.data_parallel_size")


@check("rollout replicas", "tensor times data parallelism of a vLLM replica divides the GPUs", *REPLICA, *DEVICES)
def replicas(run: Run) -> Iterator[Finding]:
    """What is left over would stand idle, and verl refuses it once Ray is up."""
    tensor, data = (run.get(key) for key in REPLICA)
    if run.devices % (tensor * data):
        times = f" (x data_parallel_size={data})" if data > 1 else ""
        wrong = f"{times}does not divide the {run.devices} GPUs of trainer.n_gpus_per_node x trainer.nnodes"
        yield Finding(REPLICA[0], tensor, wrong.strip())


LENGTHS = ("data.max_prompt_length", "data.max_response_length")


@check("token budgets", "prompt and response fit into every budget of tokens", *LENGTHS, SP,
       f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.enable_chunked_prefill",
       f"{ROLLOUT}.log_prob_use_dynamic_bsz", f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
       f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu")  # fmt: skip
def token_budgets(run: Run) -> Iterator[Finding]:
    """A sequence of full length that vLLM refuses, or that no micro-batch holds."""
    needed = sum(run.get(key) for key in LENGTHS)
    parallel = run.get(SP)
    budgets = {f"{ROLLOUT}.max_model_len": (run.get(f"{ROLLOUT}.max_model_len"), 1)}
    if not run.get(f"{ROLLOUT}.enable_chunked_prefill"):
        budgets[f"{ROLLOUT}.max_num_batched_tokens"] = (run.get(f"{ROLLOUT}.max_num_batched_tokens"), 1)
    if run.get(f"{ACTOR}.use_dynamic_bsz"):
        budgets[f"{ACTOR}.ppo_max_token_len_per_gpu"] = (run.get(f"{ACTOR}.ppo_max_token_len_per_gpu"), parallel)
    if run.get(f"{ROLLOUT}.log_prob_use_dynamic_bsz"):
        key = f"{ROLLOUT}.log_prob_max_token_len_per_gpu"
        budgets[key] = (run.get(key), parallel)
    for key, (value, times) in budgets.items():
        if value is not None and value * times < needed:
            wrong = f"is below data.max_prompt_length + data.max_response_length = {needed} tokens"
            yield Finding(key, value, wrong, "raise it, or shorten the lengths")


OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"


@check("overlong shaping", "the overlong buffer is complete, shorter than the response, and read by the reward manager",
       f"{OVERLONG}.enable", f"{OVERLONG}.len", f"{OVERLONG}.penalty_factor", f"{OVERLONG}.log",
       "reward.reward_kwargs.max_resp_len", "reward.reward_manager.name", "data.max_response_length")  # fmt: skip
def overlong_shaping(run: Run) -> Iterator[Finding]:
    """verl's reward manager dapo alone knows it, and divides by its length."""
    if not run.get(f"{OVERLONG}.enable"):
        return
    if run.get("reward.reward_manager.name") != "dapo":
        wrong = "does not know overlong_buffer_cfg, which is switched on"
        remedy = f"take dapo, or set {OVERLONG}.enable=false"
        yield Finding("reward.reward_manager.name", run.get("reward.reward_manager.name"), wrong, remedy)
        return
    longest, most = run.get("data.max_response_length"), run.get("reward.reward_kwargs.max_resp_len")
    if most is None:
        yield Finding("reward.reward_kwargs.max_resp_len", None, "is needed by the overlong buffer", f"set {longest}")
    elif most != longest:
        wrong = f"is not data.max_response_length={longest}, so that the penalty begins elsewhere than it says"
        yield Finding("reward.reward_kwargs.max_resp_len", most, wrong, "leave it out of the overrides")
    for name in ("len", "penalty_factor", "log"):
        if run.get(f"{OVERLONG}.{name}") is None:
            yield Finding(f"{OVERLONG}.{name}", None, "is needed by the overlong buffer")
    length = run.get(f"{OVERLONG}.len")
    if length is not None and length >= longest:
        wrong = f"is not below data.max_response_length={longest}: every response would be penalised"
        yield Finding(f"{OVERLONG}.len", length, wrong, f"shorten it, or set {OVERLONG}.enable=false")


FILTER = "algorithm.filter_groups"


@check("dynamic sampling", "group filtering has a metric, and groups that can hold a signal",
       f"{FILTER}.enable", f"{FILTER}.metric", f"{ROLLOUT}.n", "reward.custom_reward_function.path")  # fmt: skip
def dynamic_sampling(run: Run) -> Iterator[Finding]:
    """A group of one answer is always all right or all wrong: every group would be replaced, for ever."""
    if not run.get(f"{FILTER}.enable"):
        return
    if run.get(f"{FILTER}.metric") is None:
        yield Finding(f"{FILTER}.metric", None, "is needed where groups are filtered", "set it to acc")
    if run.get(f"{ROLLOUT}.n") == 1:
        wrong = "with algorithm.filter_groups.enable=true drops every group: one answer is all right or all wrong"
        yield Finding(f"{ROLLOUT}.n", 1, wrong, "take 2 answers or more, or switch the filter off")


@check("resumption", "resume_from_path and resume_mode say the same", "trainer.resume_mode", "trainer.resume_from_path")
def resumption(run: Run) -> Iterator[Finding]:
    """verl reads the path in mode resume_path alone."""
    mode, path = run.get("trainer.resume_mode"), run.get("trainer.resume_from_path")
    if mode == "resume_path" and path is None:
        wrong = "is needed with trainer.resume_mode=resume_path"
        yield Finding("trainer.resume_from_path", None, wrong, "name a run's global_step_N directory")
    elif mode != "resume_path" and path is not None:
        wrong = f"is not read with trainer.resume_mode={mode}"
        yield Finding("trainer.resume_from_path", path, wrong, "set trainer.resume_mode=resume_path, or leave it out")


@check("validation", "a run that only validates does so before training, and greedy validation is meant",
       "trainer.val_only", "trainer.val_before_train", f"{ROLLOUT}.val_kwargs.do_sample",
       f"{ROLLOUT}.val_kwargs.n")  # fmt: skip
def validation(run: Run) -> Iterator[Finding]:
    """val_only does nothing without val_before_train; n greedy answers are one answer n times."""
    if run.get("trainer.val_only") and not run.get("trainer.val_before_train"):
        wrong = "with trainer.val_only=true leaves nothing to do"
        yield Finding("trainer.val_before_train", False, wrong, "set it to true")
    answers = run.get(f"{ROLLOUT}.val_kwargs.n")
    if answers > 1 and not run.get(f"{ROLLOUT}.val_kwargs.do_sample"):
        wrong = f"with {ROLLOUT}.val_kwargs.n={answers} gives one greedy answer {answers} times"
        yield Finding(f"{ROLLOUT}.val_kwargs.do_sample", False, wrong, "set it to true, or n=1", "warning")
