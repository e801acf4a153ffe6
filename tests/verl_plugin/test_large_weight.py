"""verl's ways for a weight above its bucket, on which the check weight_bucket builds: by itself, or not at all.

Sender and receiver are threads that share the bucket as processes share it by CUDA IPC; the rest is verl's.
"""

import asyncio
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from torch.multiprocessing.reductions import reduce_tensor

MIB = 1  # the bucket


@pytest.fixture(scope="module")
def transfer():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERL_PLATFORM", "cpu")
        from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer

        # verl keeps the platform of its first import, which may have been another test's
        nothing = SimpleNamespace(synchronize=int, empty_cache=int, ipc_collect=int)
        patch.setattr(bucketed_weight_transfer, "get_torch_device", lambda: nothing)
        yield bucketed_weight_transfer


def model() -> dict[str, torch.Tensor]:
    """Return a small model's weights; embedding and head have 1.2 MiB each in float32."""
    random = torch.Generator().manual_seed(0)
    layers = {f"layers.{n}.mlp.down_proj": torch.randn(64, 999, generator=random) for n in range(6)}
    ends = (torch.randn(4999, 64, generator=random) for _ in range(2))
    return {"embed_tokens": next(ends), **layers, "norm": torch.ones(3).bfloat16(), "lm_head": next(ends)}


def sender_of(transfer, address: str, use_shm: bool = False):
    """Return verl's sender with a bucket in this process's memory."""
    sender = transfer.BucketedWeightSender(address, MIB, use_shm)
    sender._init_buffer = lambda: setattr(sender, "buffer", torch.empty(MIB << 20, dtype=torch.uint8))
    return sender


def test_a_weight_above_the_bucket_goes_by_itself(transfer, tmp_path):
    received = {}
    sender = sender_of(transfer, f"ipc://{tmp_path}/socket")
    sender._init_socket()
    sender._init_buffer()
    sender._init_socket = sender._init_buffer = lambda: None
    receiver = transfer.BucketedWeightReceiver(sender.zmq_handle, torch.device("cpu"))
    receiver._init_buffer = lambda: setattr(receiver, "buffer", sender.buffer)

    def load(weights, is_last):
        received.update((name, weight.clone()) for name, weight in weights)

    receiving = Thread(target=receiver.receive_weights, args=(load,), daemon=True)  # a failed sender would leave it
    receiving.start()
    asyncio.run(sender.async_send_weights(iter(model().items())))
    receiving.join(60)
    assert received.keys() == model().keys()
    assert all(torch.equal(received[name], weight) for name, weight in model().items())


def test_it_does_not_where_there_is_no_ipc(transfer, tmp_path):
    sender = sender_of(transfer, f"ipc://{tmp_path}/socket", use_shm=True)
    with pytest.raises(AssertionError, match="too large to fit in the bucket"):
        asyncio.run(sender.async_send_weights(iter(model().items())))


def test_a_weight_of_the_cpu_cannot_be_rebuilt_for_a_gpu(transfer):
    """An adapter's base weights are collected on the CPU (verl/utils/fsdp_utils.py, collect_lora_params)."""
    with pytest.raises(IndexError):
        transfer.rebuild_ipc(reduce_tensor(torch.ones(4)), 0)
