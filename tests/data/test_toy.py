"""The toy task: right sums, disjoint splits, readable by verl's own loader; its model, whole or absent; `rpg demo`."""

import json
import resource
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data.parquet import SCHEMA, make_row, write_together
from rpg.data.template import format_prompt
from rpg.data.toy import problem_text, split_of, toy_problems
from rpg.rewards import compute_score
from rpg.toy import demo_command
from rpg.toy import model as toy_model


def build(folder: Path, *options: str) -> tuple[list[dict], list[dict]]:
    assert main(["data", "build", "toy", "--out", str(folder), *options]) == 0
    train = pq.read_table(folder / "toy_train.parquet")
    test = pq.read_table(folder / "toy_test.parquet")
    assert train.schema.equals(SCHEMA)
    assert test.schema.equals(SCHEMA)
    return train.to_pylist(), test.to_pylist()


def test_files_hold_distinct_problems_of_disjoint_splits(tmp_path: Path) -> None:
    train, test = build(tmp_path)
    assert (len(train), len(test)) == (2048, 256)
    train_problems = {row["extra_info"]["raw_problem"] for row in train}
    test_problems = {row["extra_info"]["raw_problem"] for row in test}
    assert (len(train_problems), len(test_problems)) == (2048, 256)
    assert not train_problems & test_problems


def test_rows_follow_the_schema_of_the_recipe(tmp_path: Path) -> None:
    row = build(tmp_path)[0][0]
    text = row["extra_info"]["raw_problem"]
    first, second = text.removeprefix("What is ").removesuffix("?").split(" + ")
    assert row == {
        "data_source": "toy_sum",
        "prompt": [{"role": "user", "content": format_prompt(text)}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(int(first) + int(second)), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": 0, "raw_problem": text, "split": "train"},
    }
    assert compute_score("toy_sum", f"Answer: {int(first) + int(second)}", row["reward_model"]["ground_truth"])["acc"]


def test_a_pair_keeps_its_split_when_seed_and_order_change() -> None:
    test_texts = {problem.text for seed in range(5) for problem in toy_problems("test", seed, 200)}
    assert all(problem.text not in test_texts for problem in toy_problems("train", 9, 2000))
    assert all(split_of(a, b) == split_of(b, a) for a in range(40) for b in range(40))
    assert problem_text(27, 48) == "What is 27 + 48?"


def test_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build(tmp_path / name, "--seed", "3", "--train-size", "50", "--test-size", "20")
    for file in ("toy_train.parquet", "toy_test.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_too_many_rows_are_refused_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["data", "build", "toy", "--out", str(tmp_path), "--high", "9", "--train-size", "500"])
    assert code == 1
    error = capsys.readouterr().err
    assert "500 rows asked for" in error
    assert "widen the operand range" in error
    assert not list(tmp_path.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--train-size", "10", "--test-size", "99999"], "99999 rows asked for"),
        (["--train-size", "10", "--test-size", "0"], "toy_test.parquet"),
        (["--train-size", "0", "--test-size", "10"], "toy_train.parquet"),
        (["--train-size", "0", "--test-size", "0"], "--train-size"),
        (["--train-size", "10", "--test-size", "-1"], "--train-size"),
    ],
)
def test_what_would_leave_one_file_of_another_build_changes_none(options, said, tmp_path, capsys) -> None:
    build(tmp_path, "--train-size", "30", "--test-size", "10")
    before = contents(tmp_path)
    assert main(["data", "build", "toy", "--out", str(tmp_path), *options]) == 1
    assert said in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_one_split_alone_is_one_file(tmp_path: Path) -> None:
    assert main(["data", "build", "toy", "--out", str(tmp_path), "--train-size", "10", "--test-size", "0"]) == 0
    assert list(contents(tmp_path)) == ["toy_train.parquet"]
    train, test = build(tmp_path, "--train-size", "12", "--test-size", "3")  # of both: they are replaced
    assert (len(train), len(test)) == (12, 3)


def test_files_written_together_are_all_replaced_or_none(tmp_path: Path) -> None:
    def no_space():
        yield make_row(problem)
        raise OSError("no space left")

    problem = next(toy_problems("train", 0, 1))
    paths = [tmp_path / "one" / "a.parquet", tmp_path / "b.parquet"]
    assert write_together({path: [make_row(problem)] for path in paths}) == dict.fromkeys(paths, 1)
    before = contents(tmp_path / "one")
    with pytest.raises(OSError, match="no space left"):
        write_together({paths[0]: [make_row(problem)] * 2, paths[1]: no_space()})
    assert contents(tmp_path / "one") == before
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(paths)


TINY = toy_model.ToyModelSettings(hidden_size=16, layers=1, heads=2, train_problems=20, test_problems=4)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_model, "train", lambda *arguments: 0.3)


def test_model_is_absent_after_a_kill_and_whole_after_the_next_build(tmp_path, untrained, monkeypatch):
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    out = tmp_path / "model"
    with monkeypatch.context() as patch:
        patch.setattr(toy_model.PreTrainedTokenizerFast, "save_pretrained", killed)
        with pytest.raises(KeyboardInterrupt):
            toy_model.build_toy_model(out, TINY)
    assert not list(tmp_path.iterdir())

    left = tmp_path / ".model.partial"  # as SIGKILL leaves it
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    (left / "stray").touch()
    toy_model.build_toy_model(out, TINY)
    assert demo_command.is_whole(out)
    assert list(tmp_path.iterdir()) == [out]
    toy_model.require_replaceable(out)  # nothing but what FILES names


@pytest.mark.parametrize("files", [{}, {"config.json": "{}", "model.safetensors": "weights"}])
def test_half_a_model_is_no_model_and_replaced(tmp_path, untrained, files):
    out = tmp_path / "model"
    out.mkdir()
    for name, text in files.items():
        (out / name).write_text(text)
    assert not demo_command.is_whole(out)
    toy_model.build_toy_model(out, TINY)
    assert demo_command.is_whole(out)
    (out / "tokenizer.json").write_bytes(b"")
    assert not demo_command.is_whole(out)


def test_a_directory_with_other_files_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(toy_model, "train", lambda *arguments: pytest.fail("trained what has no place"))
    (tmp_path / "config.json").touch()
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(FileExistsError, match=r"holds thesis.tex, .*move the directory away or name another"):
        toy_model.build_toy_model(tmp_path, TINY)
    assert (tmp_path / "thesis.tex").read_text() == "years"
    with pytest.raises(NotADirectoryError, match="move it away or name another"):
        toy_model.build_toy_model(tmp_path / "thesis.tex", TINY)


def test_a_full_disk_is_an_oserror_and_leaves_what_was_there(tmp_path, untrained):
    out = tmp_path / "model"
    out.mkdir()
    (out / "config.json").write_text("{}")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            toy_model.build_toy_model(out, TINY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == [out]
    assert (out / "config.json").read_text() == "{}"


def records(path: Path, *validations: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [validation | {"actor/lr": 1.0} for validation in validations]
    path.write_text("".join(json.dumps({"step": step, "data": one}) + "\n" for step, one in enumerate(data)))
    return path


@pytest.mark.parametrize("answers", [1, 4, 16])
def test_accuracy_is_found_whatever_the_number_of_answers(tmp_path, answers):
    key = f"val-core/toy_sum/acc/mean@{answers}"
    others = {f"val-core/toy_sum/acc/best@{answers}/mean": 0.9, f"val-aux/toy_sum/score/mean@{answers}": 0.8}
    metrics = records(tmp_path / "metrics.jsonl", {key: 0.25, **others}, {}, {key: 0.5, **others})
    assert demo_command.accuracy_by_step(metrics) == [(0, 0.25), (2, 0.5)]


def test_two_accuracies_of_one_step_are_refused(tmp_path):
    metrics = records(tmp_path / "metrics.jsonl", {demo_command.ACCURACY + "1": 0.1, demo_command.ACCURACY + "4": 0.2})
    with pytest.raises(ValueError, match=r"step 0 has .*mean@1 and .*mean@4"):
        demo_command.accuracy_by_step(metrics)


@pytest.fixture
def demo(tmp_path, monkeypatch, capsys):
    """`rpg demo` with a run that leaves these records: exit code, standard output on one line, standard error."""

    def run(*validations: dict, overrides: tuple[str, ...] = (), written: bool = True) -> tuple[int, str, str]:
        def call(command: list[str]) -> int:
            assert command[len(command) - len(overrides) :] == list(overrides)
            if written:
                records(tmp_path / "demo" / "metrics.jsonl", *validations)
            return 0

        monkeypatch.setattr(demo_command, "call", call)
        monkeypatch.setattr(demo_command, "prepare", lambda *arguments: None)
        code = main(["demo", "--dir", str(tmp_path), *overrides])
        printed = capsys.readouterr()
        return code, printed.out.replace("\n", " "), printed.err

    return run


def test_demo_with_one_answer_a_problem_is_shown_and_judged(demo, tmp_path):
    key, override = "val-core/toy_sum/acc/mean@1", "actor_rollout_ref.rollout.val_kwargs.n=1"
    code, out, _ = demo({key: 0.3}, {key: 0.5}, {key: 0.7}, overrides=(override,))
    assert code == 0
    assert "0.300 -> 0.700 (+0.400)" in out
    assert (tmp_path / "demo" / "accuracy.png").stat().st_size > 1000
    code, out, _ = demo({key: 0.3}, {key: 0.5}, {key: 0.4}, overrides=(override,))
    assert code == 1
    assert "expected a gain of at least 0.3" in out


@pytest.mark.parametrize("written", [True, False])  # the latter: trainer.logger=console
def test_demo_without_a_validation_says_that_it_cannot_judge(demo, written):
    code, out, err = demo({}, {}, written=written, overrides=("trainer.test_freq=-1", "trainer.val_before_train=false"))
    assert (code, err) == (0, "")
    assert "no held-out accuracy" in out
    assert "cannot be said" in out
    assert "metrics, configuration, checkpoints" in out


def test_demo_with_two_validations_is_not_judged(demo):
    code, out, _ = demo({demo_command.ACCURACY + "4": 0.3}, {demo_command.ACCURACY + "4": 0.3})
    assert code == 0
    assert "from three validations on" in out


def test_demo_with_two_accuracies_in_a_step_fails_in_one_line(demo):
    code, _, err = demo({demo_command.ACCURACY + "1": 0.3, demo_command.ACCURACY + "4": 0.3})
    assert code == 1
    assert err.startswith("rpg demo: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("sign", ["", "+", "++", "~"])
@pytest.mark.parametrize("key", demo_command.OWN)
def test_demo_refuses_overrides_of_its_own_settings(tmp_path, monkeypatch, capsys, sign, key):
    for name in ("prepare", "call"):
        monkeypatch.setattr(demo_command, name, lambda *arguments: pytest.fail("began"))
    directory = tmp_path / "toy"
    text = f"{sign}{key}=elsewhere"
    assert main(["demo", "--dir", str(directory), "trainer.test_freq=5", text]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"rpg demo: {text}: the demo sets {key} itself; leave it out (--dir ")
    assert said.count("\n") == 1
    assert not directory.exists()


def test_demo_refuses_them_within_another_and_lets_the_rest_pass():
    for text in ("trainer={default_local_dir:/elsewhere}", "~data", "++actor_rollout_ref={}"):
        with pytest.raises(demo_command.BadSetting, match="one by one"):
            demo_command.check_overrides([text])
    demo_command.check_overrides(["trainer.test_freq=5", "data.train_files_x=1", "++data.seed=3", "~trainer.x", ""])


def test_demo_refuses_a_directory_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").touch()
    for directory, reason in (("/dev/null/x", "Not a directory"), (tmp_path / "file", "File exists")):
        assert main(["demo", "--dir", str(directory), "--prepare-only"]) == 2
        said = capsys.readouterr().err
        assert said == f"rpg demo: --dir {directory}: {reason}; give a directory that is there or can be made\n"


def test_demo_says_in_one_line_why_data_or_model_are_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # which the building sets, and nothing takes back
    (tmp_path / "toy_train.parquet").mkdir()
    assert main(["demo", "--dir", str(tmp_path), "--prepare-only"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("rpg demo: rpg data build toy: ")
    assert said.count("\n") == 1

    def unlearned(model: Path) -> None:
        raise RuntimeError("the accuracy is 0.1")

    monkeypatch.setattr(toy_model, "build_toy_model", unlearned)
    (tmp_path / "toy_train.parquet").rmdir()
    for split in ("train", "test"):
        (tmp_path / f"toy_{split}.parquet").touch()
    assert main(["demo", "--dir", str(tmp_path), "--prepare-only"]) == 1
    assert capsys.readouterr().err == "rpg demo: the accuracy is 0.1\n"
