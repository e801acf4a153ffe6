"""`rpg export` and `rpg eval`: what they refuse, and the real merger on a checkpoint as FSDP2 writes it."""

import json

import pytest

from rpg.cli import main
from rpg.files import manifest
from rpg.files.integrity import UNCHECKED
from rpg.results import export_command as export
from rpg.results.eval_command import eval_command, find_checkpoint
from rpg.results.settings import ResultsError
from tests.files.written import write_complete, write_verl

SHARD = "actor/model_world_size_2_rank_1.pt"


def checkpoint(folder, step=3):
    """As plain verl writes it, of one rank, without optimizer."""
    return write_verl(folder, step, ranks=1, kinds=("model",)) / "actor"


def test_find_checkpoint(tmp_path):
    actor = checkpoint(tmp_path)
    for given in (tmp_path, actor.parent, actor):
        assert find_checkpoint(given) == (actor.parent, [f"{actor.parent}: {UNCHECKED}"])
    manifest.write(actor.parent)
    for given in (tmp_path, actor.parent, actor):
        assert find_checkpoint(given) == (actor.parent, [])


def test_the_newest_complete_one_of_a_run_is_exported(tmp_path, capsys, monkeypatch):
    """And a damaged one alone not at all, the file named, nothing written."""
    whole, damaged = write_complete(tmp_path, 4), write_complete(tmp_path, 6)
    (damaged / SHARD).write_bytes(b"")
    manifest.begin(tmp_path / "global_step_8")
    monkeypatch.setattr(export, "export", lambda actor, out: None)
    assert main(["export", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert f"exported from {whole}" in shown.out
    assert shown.err.splitlines() == [
        f"rpg export: {tmp_path / 'global_step_8'}: passed over: manifest.json is missing: "
        "the save did not come to its end",
        f"rpg export: {damaged}: passed over: {SHARD} is empty, of {(whole / SHARD).stat().st_size} bytes",
    ]
    for given in (damaged, damaged / "actor"):
        assert main(["export", str(given)]) == 2
        assert f"rpg export: {damaged}: {SHARD} is empty, of " in capsys.readouterr().err
    (whole / "data.pt").write_bytes(b"DATA")  # of the same size
    assert main(["export", str(tmp_path)]) == 2
    assert "data.pt is not what was written" in capsys.readouterr().err
    assert not list(tmp_path.rglob("hf*"))


def test_export_does_not_write_over_anything(tmp_path):
    checkpoint(tmp_path)
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "mine"
    mine.write_text("x")
    for out in (tmp_path / "out", mine):
        assert main(["export", str(tmp_path), "--out", str(out)]) == 2
    assert mine.read_text() == "x"


@pytest.mark.parametrize("failing", ["verl.model_merger", "-c"])
def test_a_failed_export_can_be_tried_again(tmp_path, capsys, monkeypatch, failing):
    actor = checkpoint(tmp_path)
    fails = {failing}

    def python(*arguments):
        if "-m" in arguments:
            (arguments[-1] / export.ADAPTER).mkdir(parents=True)
        if fails & set(arguments):
            raise export.MergerError("ended with 1")

    monkeypatch.setattr(export, "python", python)
    before = sorted(actor.parent.iterdir())
    assert main(["export", str(tmp_path)]) == 1
    assert sorted(actor.parent.iterdir()) == before
    fails.clear()
    assert main(["export", str(tmp_path)]) == 0
    assert main(["export", str(tmp_path)]) == 2
    assert "not an empty directory" in capsys.readouterr().err


@pytest.mark.full
def test_real_merger_gives_back_the_weights(tmp_path):
    """One shard of an FSDP2 model of one rank; exported, loaded, equal."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoModelForCausalLM

    from rpg.toy.model import ToyModelSettings, build_model, build_tokenizer

    actor = checkpoint(tmp_path)
    tokenizer = build_tokenizer(["What is 1 + 2?", "Answer: 3"] * 20, 300)
    model = build_model(tokenizer, ToyModelSettings(layers=1))
    tokenizer.save_pretrained(actor / "huggingface")
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(actor / "huggingface")
    model.generation_config.save_pretrained(actor / "huggingface")
    wanted = {name: value.detach().clone() for name, value in model.state_dict().items()}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
        fully_shard(model, mesh=mesh)
        torch.save(model.state_dict(), actor / "model_world_size_1_rank_0.pt")
    finally:
        dist.destroy_process_group()
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))

    assert main(["export", str(tmp_path)]) == 0
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "global_step_3" / "hf", dtype=torch.float32)
    for name, value in loaded.state_dict().items():
        assert torch.allclose(value, wanted[name], rtol=2**-8, atol=1e-6), name  # verl's merger writes bfloat16


def test_eval_command(tmp_path):
    actor = checkpoint(tmp_path)
    script, file, out = tmp_path / "run_x.sh", tmp_path / "x.parquet", tmp_path / "out"
    script.touch()
    file.touch()
    command = eval_command(script, actor.parent, [file], 4, out, ["rpg.console=full"])
    assert command == [
        "bash",
        str(script),
        "trainer.val_only=True",
        "trainer.val_before_train=True",
        "actor_rollout_ref.rollout.val_kwargs.n=4",
        f"trainer.default_local_dir={out}",
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={actor.parent}",
        f"data.val_files=[{file}]",
        "rpg.console=full",
    ]
    assert "trainer.resume_mode=disable" in eval_command(script, None, None, 1, out, [])


def test_eval_takes_the_newest_complete_checkpoint_of_a_run(tmp_path):
    script = tmp_path / "run_x.sh"
    script.touch()
    older, cut = write_complete(tmp_path, 4), write_complete(tmp_path, 6)
    (cut / SHARD).write_bytes(b"")
    command = eval_command(script, tmp_path, None, 1, tmp_path / "out", [])
    assert f"trainer.resume_from_path={older}" in command


def test_eval_refuses(tmp_path, capsys):
    script = tmp_path / "run_x.sh"
    with pytest.raises(ResultsError, match="no such file"):
        eval_command(script, None, None, 1, tmp_path / "out", [])
    script.touch()
    with pytest.raises(ResultsError, match="--samples 0"):
        eval_command(script, None, None, 0, tmp_path / "out", [])
    with pytest.raises(ResultsError, match="not a checkpoint"):
        eval_command(script, tmp_path, None, 1, tmp_path / "out", [])
    cut, plain = write_complete(tmp_path, 6), write_verl(tmp_path, 4)
    for step in (cut, plain):
        (step / SHARD).write_bytes(b"")
        with pytest.raises(ResultsError, match=f"{step}: {SHARD} is empty"):
            eval_command(script, step, None, 1, tmp_path / "out", [])
    assert main(["eval", str(script), "--checkpoint", str(cut), "--out", str(tmp_path / "out")]) == 2
    with pytest.raises(ResultsError, match="no complete checkpoint"):
        eval_command(script, tmp_path, None, 1, tmp_path / "out", [])
    assert f"rpg eval: {cut}: {SHARD} is empty, of " in capsys.readouterr().err
    (tmp_path / "metrics.jsonl").touch()
    assert main(["eval", str(script), "--out", str(tmp_path)]) == 2
    assert "there is a run already" in capsys.readouterr().err
