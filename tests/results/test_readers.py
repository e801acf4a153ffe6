"""One run, three loggers, one table; and what damaged, resumed and doubled logs do."""

import json
import shutil
import struct
import zlib

import pytest
from synthetic import config, records, write_run

from rpg.results.records import ResultsError, assemble
from rpg.results.runs import load_runs
from rpg.results.table import build_table
from rpg.results.wandb_offline import BLOCK, read_chunks

LINES = records([0.1, 0.3, 0.25])  # validations at steps 0, 2, 4


def load(*paths):
    notes = []
    runs = load_runs(paths, notes)
    return runs, notes


@pytest.mark.full
def test_verls_own_loggers_give_the_same_table(tmp_path, monkeypatch):
    """verl's own Tracking writes all three, as in a run; damage to its .wandb file is noted or refused."""
    from verl.utils.tracking import Tracking

    settings = config("rpg_cpu_urkl1e-4")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("TENSORBOARD_DIR", str(tmp_path / "tb"))
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "file" / "metrics.jsonl"))
    write_run(tmp_path / "file", [], settings)
    write_run(tmp_path / "tb", [], settings)
    (tmp_path / "tb" / "metrics.jsonl").unlink()
    tracking = Tracking("rpg", "rpg_cpu_urkl1e-4", ["file", "wandb", "tensorboard"], settings)
    for step, data in LINES:
        tracking.log(data, step)
    tracking.finish()

    assert_same_tables(tmp_path)
    damage_wandb_file(next(tmp_path.glob("wandb/*/*.wandb")))


def assert_same_tables(folder):
    tables = {}
    for source in ("file", "tb", "wandb"):
        (run,), notes = load(folder / source)
        assert run.name == "rpg_cpu_urkl1e-4"
        assert run.planned_steps == 4
        tables[source] = build_table([run], notes)
    for source in ("tb", "wandb"):
        ours, reference = tables[source], tables["file"]
        assert [row.label for row in ours.rows] == ["RPG-URKL"] == [row.label for row in reference.rows]
        assert ours.benchmarks == ["AIME24"]
        cell = ours.rows[0].cells["AIME24"]
        assert (cell.last, cell.best) == pytest.approx((0.25, 0.3), rel=1e-6)  # TensorBoard holds float32
        assert ours.notes == reference.notes


def log_chunks(wanted):
    """Records as the bytes of a LevelDB log, written by its description: the other side of read_chunks."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for data in wanted:
        first = True
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += b"\0" * left
                left = BLOCK
            part, data = data[: left - 7], data[left - 7 :]
            kind = (1 if not data else 2) if first else (4 if not data else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
            if not data:
                break
    return bytes(out)


def write_wandb(file, settings, lines):
    from wandb.proto import wandb_internal_pb2 as proto

    start = proto.Record()
    start.run.display_name = settings["trainer"]["experiment_name"]
    for key, value in settings.items():
        start.run.config.update.add(key=key, value_json=json.dumps(value))
    messages = [start]
    for step, data in lines:
        message = proto.Record()
        message.history.step.num = step
        for key, value in {**data, "_runtime": 1.0}.items():
            message.history.item.add(nested_key=[key], value_json=json.dumps(value))
        messages.append(message)
    file.parent.mkdir(parents=True)
    file.write_bytes(log_chunks([message.SerializeToString() for message in messages]))


def write_events(folder, lines):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, data in lines:
        for tag, value in data.items():
            writer.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])))
    writer.close()


def test_three_kinds_of_log_give_the_same_table(tmp_path):
    settings = config("rpg_cpu_urkl1e-4")
    write_run(tmp_path / "file", LINES, settings)
    write_wandb(tmp_path / "wandb" / "offline-run-1" / "run-1.wandb", settings, LINES)
    write_events(tmp_path / "tb", LINES)
    (tmp_path / "tb" / "config.yaml").write_text((tmp_path / "file" / "config.yaml").read_text())
    assert_same_tables(tmp_path)


def test_wandb_continuation_in_a_second_directory(tmp_path):
    """A run that was resumed has two offline directories of one name; the later one wins where they overlap."""
    settings = config("rpg_cpu_urkl1e-4")
    write_wandb(tmp_path / "offline-run-1" / "run-1.wandb", settings, LINES)
    write_wandb(tmp_path / "offline-run-2" / "run-2.wandb", settings, records([0.5, 0.6], first=3))
    (run,), notes = load(tmp_path)
    assert run.accuracies() == {"AIME24": [(0, 0.1), (2, 0.3), (3, 0.5), (5, 0.6)]}
    assert any("resumed at step 3" in note for note in run.notes)
    assert any("continued in" in note for note in run.notes)
    assert notes == []


@pytest.mark.parametrize("seed", [1, 2])
def test_wandb_continuation_goes_on_with_the_run_of_its_seed(tmp_path, seed):
    """Two seeds of one name, of which one was resumed."""
    for number, (of, lines) in enumerate(((1, LINES), (2, records([0.2, 0.4])), (seed, records([0.9], first=5))), 1):
        write_wandb(tmp_path / f"offline-run-{number}" / f"run-{number}.wandb", config("same", seed=of), lines)
    runs, _ = load(tmp_path)
    assert {run.config["data"]["seed"]: run.last_step for run in runs} == {1: 4, 2: 2, seed: 5}


def test_wandb_continuation_goes_on_with_the_newest_run(tmp_path):
    """A run begun anew, of the same name and seed."""
    for number, lines in enumerate((LINES, records([0.2, 0.4]), records([0.9], first=3)), 1):
        write_wandb(tmp_path / f"offline-run-{number}" / f"run-{number}.wandb", config("same"), lines)
    runs, _ = load(tmp_path)
    assert [run.accuracies()["AIME24"] for run in runs] == [
        [(0, 0.1), (2, 0.3), (4, 0.25)],
        [(0, 0.2), (2, 0.4), (3, 0.9)],
    ]


def damage_wandb_file(file):
    """A cut-off end is noted, a flipped byte refused."""
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    (run,), _ = load(file)
    assert "cut off" in run.notes[0]
    file.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    with pytest.raises(ResultsError, match=r"byte \d+: wrong checksum"):
        load(file)
    file.write_bytes(b"PK" + whole)
    with pytest.raises(ResultsError, match=r"not a \.wandb file"):
        load(file)


def test_wandb_records_longer_than_a_block(tmp_path):
    """Records of 1 byte to three blocks, one ending where no chunk head fits, come back as they were."""
    wanted = [b"a", b"b" * (BLOCK - 7 - 8 - 7 - 3), b"c" * (3 * BLOCK), b"", b"d" * 100]
    file = tmp_path / "run.wandb"
    file.write_bytes(log_chunks(wanted))
    notes = []
    assert list(read_chunks(file, notes)) == wanted
    assert notes == []


def test_truncated_last_line_is_left_out_and_noted(tmp_path):
    run_dir = write_run(tmp_path / "a", LINES)
    file = run_dir / "metrics.jsonl"
    file.write_text(file.read_text()[:-20])
    (run,), _ = load(run_dir)
    assert run.last_step == 3
    assert "line 5 is cut off" in run.notes[0]


@pytest.mark.parametrize("line", ["{", "[]", '{"step": 1}', '{"step": "x", "data": {}}', '{"step": 1, "data": 3}'])
def test_broken_line_in_the_middle_is_refused_by_number(tmp_path, line):
    run_dir = write_run(tmp_path / "a", LINES)
    file = run_dir / "metrics.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(ResultsError, match=r"metrics\.jsonl, line 3: not a record"):
        load(run_dir)


def test_resumed_run_later_wins_and_dead_branch_goes():
    notes = []
    history = assemble([(1, {"x": 1.0}), (2, {"x": 2.0}), (3, {"x": 3.0}), (2, {"x": 9.0, "y": 1.0})], notes)
    assert history == {1: {"x": 1.0}, 2: {"x": 9.0, "y": 1.0}}
    assert notes == ["resumed at step 2: steps 3 to 3 of the earlier part are replaced"]


def test_metrics_of_an_earlier_part_lie_beside(tmp_path):
    run_dir = write_run(tmp_path / "a", records([0.5, 0.6], first=2))
    earlier = write_run(tmp_path / "b", records([0.1, 0.3, 0.2]))
    shutil.move(earlier / "metrics.jsonl", run_dir / "metrics.previous.jsonl")
    (run,), _ = load(run_dir)
    assert run.accuracies() == {"AIME24": [(0, 0.1), (2, 0.5), (4, 0.6)]}
    assert "resumed at step 2" in run.notes[0]

    (run_dir / "metrics.jsonl").unlink()  # killed before its first step
    (run,), _ = load(run_dir)
    assert run.last_step == 4


def test_metrics_put_aside_by_a_run_that_does_not_resume_are_no_part_of_it(tmp_path):
    run_dir = write_run(tmp_path / "a", LINES)
    for name in ("metrics.until-20260101-000000.jsonl", "metrics.previous.until-20260101-000000.jsonl"):
        (run_dir / name).write_text('{"step": 99, "data": {"x": 1.0}}\n')
    (run,), _ = load(run_dir)
    assert (run.last_step, run.notes[1:]) == (4, [])


def test_two_runs_of_one_name_are_told_apart(tmp_path):
    for folder, seed in (("a", 1), ("b", 2)):
        write_run(tmp_path / folder, records([0.1, 0.2 + seed / 10]), config("same", seed=seed))
    runs, notes = load(tmp_path)
    assert len({run.name for run in runs}) == 2
    assert notes == ["2 runs are called same; they are told apart by their directories"]


def test_run_given_twice_counts_once(tmp_path):
    run_dir = write_run(tmp_path / "a", LINES)
    copy = write_run(tmp_path / "b", LINES)
    runs, notes = load(run_dir, run_dir / "metrics.jsonl", copy)
    assert len(runs) == 1
    assert "named twice" in notes[0]
    assert "the same numbers as" in notes[1]


def test_run_without_a_step_is_left_out(tmp_path):
    write_run(tmp_path / "a", LINES)
    write_run(tmp_path / "b", [])
    runs, notes = load(tmp_path)
    assert len(runs) == 1
    assert "no step in it yet" in notes[0]
    with pytest.raises(ResultsError, match="no step in it yet"):
        load(tmp_path / "b")


def test_nothing_there(tmp_path):
    with pytest.raises(ResultsError, match="no such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="no run there"):
        load(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(ResultsError, match="unknown kind"):
        load(tmp_path / "x.txt")


def test_two_spellings_of_one_benchmark_are_refused(tmp_path):
    data = {"val-core/aime24/acc/mean@1": 0.1, "val-core/AIME24/acc/mean@1": 0.2}
    write_run(tmp_path / "a", [(0, data)])
    with pytest.raises(ResultsError, match="second value of AIME24"):
        load(tmp_path / "a")


def test_not_a_number_survives(tmp_path):
    run_dir = write_run(tmp_path / "a", [(1, {"x": float("nan"), "y": 1.0, "text": "t", "none": None, "b": True})])
    (run,), _ = load(run_dir)
    assert set(run.history[1]) == {"x", "y"}
    assert json.loads((run_dir / "metrics.jsonl").read_text())["data"]["text"] == "t"
