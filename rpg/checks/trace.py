"""The memory of the training process on one device, traced: its own computation on tensors without data.

torch's FakeTensor knows shapes and formats and allocates nothing; torch's "fake" process group makes of this process
one rank of as many as the run has; torch's FSDPMemTracker follows every storage. What runs is transformers' own model
from its configuration, sharded by FSDP2 as verl shards it, one micro-batch of the size that the settings allow, and
AdamW. Restated here, because they need a GPU or verl: flash attention (its inputs, output and log-sum-exp are kept),
its cross-entropy (the gradient takes the logits' place) and, without it, verl's log-probs.

Not in it: what the allocator loses to fragments, CUDA contexts, NCCL's buffers.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rpg.checks.estimate import MODELS, bytes_of

FLASH = "rpg_traced"  # a name with "flash" in it would be looked for among the kernels of the hub


@dataclass(frozen=True)
class Peak:
    """The most that a phase holds at a time.

    Attributes:
        total: bytes. parts: of which, by torch's names (SHARDED_PARAM, ACT, ...), at that moment.
    """

    total: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Trace:
    """What a device holds in each phase, in bytes.

    Attributes:
        resident: the actor between phases: its shards and their moments.
        log_prob: old log-probs. reference: those of a reference, whose shards are in host memory; None without one.
        update: forward, backward and optimizer step, beside the gradients of earlier micro-batches.
        largest: the largest whole parameter, which weight synchronisation gathers.
        batches: rows and tokens of a row in log_prob and in update.
    """

    resident: int
    log_prob: Peak
    reference: Peak | None
    update: Peak
    largest: int
    batches: dict[str, tuple[int, int]]


class _Flash(torch.autograd.Function):
    """Flash attention, as far as memory goes."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # type: ignore[override]
        out = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class _InPlaceCrossEntropy(torch.autograd.Function):
    """flash-attn's cross-entropy with inplace_backward, as far as memory goes."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(logits)
        return logits.new_empty(logits.shape[:-1], dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return ctx.saved_tensors[0]


class _FusedHead(torch.autograd.Function):
    """verl's fused output layer and cross-entropy, which makes logits for a few hundred tokens at a time."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(hidden, weight)
        return hidden.new_empty(hidden.shape[:-1], dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return tuple(torch.empty_like(saved) for saved in ctx.saved_tensors)


def _flash(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> tuple[Tensor, None]:
    return _Flash.apply(query, key, value).transpose(1, 2).contiguous(), None  # type: ignore[attr-defined]


def batch(config: dict[str, Any], devices: int, *, update: bool) -> tuple[int, int]:
    """Rows of the largest micro-batch on one device and tokens of a row; where they are packed, one row of all."""
    actor, data = config["actor_rollout_ref"]["actor"], config["data"]
    rollout = config["actor_rollout_ref"]["rollout"]
    packed = config["actor_rollout_ref"]["model"].get("use_remove_padding")
    length = data["max_prompt_length"] + data["max_response_length"]
    prompts = actor["ppo_mini_batch_size"] if update else data["train_batch_size"]
    rows = max(prompts * rollout["n"] // devices, 1)
    if not actor["use_dynamic_bsz"]:
        key = "ppo_micro_batch_size_per_gpu" if update else "log_prob_micro_batch_size_per_gpu"
        rows = min(rows, (actor if update else rollout).get(key) or 1)
    else:
        tokens = actor["ppo_max_token_len_per_gpu"] if update else rollout["log_prob_max_token_len_per_gpu"]
        if packed:
            return 1, min(tokens, rows * length)
        rows = -(-rows // -(-rows * length // tokens))  # verl takes as few micro-batches as it can, of one size
    return (1, rows * length) if packed else (rows, length)


def trace(config: dict[str, Any], devices: int, *, reference: bool) -> Trace:
    """Trace the phases of a resolved configuration on one of so many devices. Seconds a dozen layers.

    Raises:
        ValueError: the model's configuration is not at hand, or the actor's strategy is not fsdp2.
        RuntimeError: this process has a process group already.
    """
    from torch._subclasses import FakeTensorMode

    section = config["actor_rollout_ref"]
    if section["actor"]["strategy"] != "fsdp2":
        raise ValueError(f"actor_rollout_ref.actor.strategy={section['actor']['strategy']}: only fsdp2 is traced")
    hf_config = _hf_config(section["model"])
    batches = {"log_prob": batch(config, devices, update=False), "update": batch(config, devices, update=True)}
    with _one_of(devices) as mesh, FakeTensorMode(allow_non_fake_inputs=True):
        worker = _Worker(section, hf_config, mesh)
        resident = worker.resident
        log_prob = worker.peak(worker.log_prob, batches["log_prob"])
        worker.accumulate()
        update = worker.peak(worker.update, batches["update"])
        largest = max(parameter.numel() * parameter.element_size() for parameter in worker.module.parameters())
    # its shards come from the host, one layer at a time; the actor's stay where they are. No entropy is asked for
    other = Peak(log_prob.total, log_prob.parts) if reference else None
    return Trace(resident, log_prob, other, update, largest, batches)


@contextlib.contextmanager
def _one_of(devices: int) -> Iterator[Any]:
    """This process as one rank of so many, none of which is there."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if torch.distributed.is_initialized():
        raise RuntimeError("this process has a process group already; trace in one of its own")
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)
    try:
        yield init_device_mesh("cpu", (devices,))
    finally:
        torch.distributed.destroy_process_group()


def _hf_config(model: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    path = str(model["path"])
    if (Path(path).expanduser() / "config.json").is_file():
        return AutoConfig.from_pretrained(Path(path).expanduser(), local_files_only=True)
    if path in MODELS:
        known = dict(MODELS[path])
        return AutoConfig.for_model(known.pop("model_type"), **known)
    raise ValueError(f"actor_rollout_ref.model.path={path}: no config.json there; set MODEL_PATH to a local directory")


class _Worker:
    """verl's actor, as far as its tensors go."""

    def __init__(self, section: dict[str, Any], hf_config: Any, mesh: Any):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from transformers import AttentionInterface, AutoModelForCausalLM

        model, actor = section["model"], section["actor"]["fsdp_config"]
        attention = (model.get("override_config") or {}).get("attn_implementation", "flash_attention_2")
        self.flash = attention == "flash_attention_2"
        self.packed = bool(model.get("use_remove_padding"))
        if self.flash or self.packed:  # torch's kernels keep what flash attention keeps, and get a mask where packed
            AttentionInterface.register(FLASH, _flash)
            attention = FLASH
        precision = actor.get("mixed_precision") or {}
        self.autocast = _dtype(precision.get("param_dtype") or "bf16")
        self.compiled = actor.get("use_torch_compile", True)  # the entropy, in one kernel without temporaries
        self.module = AutoModelForCausalLM.from_config(
            hf_config, dtype=_dtype(actor.get("model_dtype") or "fp32"), attn_implementation=attention
        )
        if model.get("enable_gradient_checkpointing"):
            self.module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if model.get("use_fused_kernels"):
            head = self.module.lm_head
            head.forward = lambda hidden: _FusedHead.apply(hidden, head.weight)
        self.head_is_fused = bool(model.get("use_fused_kernels"))
        policy = MixedPrecisionPolicy(
            param_dtype=self.autocast,
            reduce_dtype=_dtype(precision.get("reduce_dtype") or "fp32"),
            cast_forward_inputs=True,
        )
        for part in _units(self.module):
            fully_shard(
                part, mesh=mesh, mp_policy=policy, reshard_after_forward=actor.get("reshard_after_forward", True)
            )
        # on a GPU torch updates all parameters at once (foreach), with a list of temporaries of their size
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=0.0, foreach=self.packed)
        self.accumulate()
        self.optimizer.step()  # makes the moments, which a first step would not have
        self.optimizer.zero_grad()

    def accumulate(self) -> None:
        """Gradients, as earlier micro-batches of a mini-batch leave them."""
        for parameter in self.module.parameters():
            parameter.grad = torch.zeros_like(parameter)

    @property
    def resident(self) -> int:
        """Bytes of this rank's shards and their moments."""
        tensors = list(self.module.parameters())
        tensors += [value for state in self.optimizer.state.values() for value in state.values()]
        return sum(_local(tensor).numel() * tensor.element_size() for tensor in tensors)

    def peak(self, phase: Any, shape: tuple[int, int]) -> Peak:
        """The most that a phase holds."""
        from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

        tracker = FSDPMemTracker(self.module, self.optimizer)
        with tracker:
            phase(shape)
        [(_, found)] = tracker.get_tracker_snapshot("peak").items()
        parts = {getattr(kind, "name", str(kind)): int(size) for kind, size in found.items()}
        return Peak(parts.pop("Total"), {name: size for name, size in parts.items() if size})

    def log_prob(self, shape: tuple[int, int]) -> None:
        """Old log-probs and their entropy."""
        self.module.eval()
        with torch.no_grad():
            self._forward(shape, entropy=True)

    def update(self, shape: tuple[int, int]) -> None:
        """The last micro-batch of a mini-batch, and the optimizer's step."""
        self.module.train()
        self._forward(shape, entropy=False).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _forward(self, shape: tuple[int, int], *, entropy: bool) -> Tensor:
        ids = torch.zeros(shape, dtype=torch.long)
        inputs: dict[str, Any] = {"input_ids": ids, "position_ids": torch.arange(shape[1]).expand(shape)}
        inputs["attention_mask"] = None if self.packed else torch.ones(shape, dtype=torch.bool)
        mixed = self.autocast != torch.float32
        masked = self.packed and not self.flash
        _mask = torch.empty((shape[1], shape[1] if masked else 0), dtype=self.autocast)  # held meanwhile
        with torch.autocast("cpu", self.autocast) if mixed else contextlib.nullcontext():
            logits = self.module(**inputs, use_cache=False).logits
            if self.head_is_fused:
                return logits  # they are log-probs
            if entropy and not self.compiled:
                _entropy(logits)
            if not self.packed:  # verl cuts the padding off and joins the rows
                logits = torch.cat(list(logits.unbind()))
            if self.flash:
                return _InPlaceCrossEntropy.apply(logits)  # type: ignore[return-value]
            labels = torch.zeros((*logits.shape[:-1], 1), dtype=torch.long)
            if mixed:
                return logits.log_softmax(dim=-1).gather(-1, labels).squeeze(-1)
            return logits.gather(-1, labels).squeeze(-1) - torch.logsumexp(logits, dim=-1)


def _units(module: Any) -> Iterator[Any]:
    """What verl shards by itself: every layer, embedding and output where they are not one, then the whole."""
    layers = set(module._no_split_modules or ())
    apart = set() if module.config.tie_word_embeddings else {"embed_tokens", "lm_head"}
    for name, part in module.named_modules():
        if type(part).__name__ in layers or name.rpartition(".")[2] in apart:
            yield part
    yield module


def _entropy(logits: Tensor) -> Tensor:
    return torch.logsumexp(logits, dim=-1) - (logits.softmax(dim=-1) * logits).sum(dim=-1)


def _dtype(name: str) -> torch.dtype:
    if bytes_of(name) == 4:
        return torch.float32
    return torch.bfloat16 if name.startswith("b") else torch.float16


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
