"""What cannot be used is named and left out, and no text from elsewhere is more than text."""

import csv
import io
import json

import pytest
from matplotlib import mathtext
from matplotlib.cbook import is_math_text
from synthetic import config, records, write_run
from test_readers import write_events

from rpg.cli import main
from rpg.results import escape
from rpg.results.records import ResultsError, as_step, exit_code, parse_yaml
from rpg.results.render import FORMATS
from rpg.results.runs import load_runs
from rpg.results.table import Cell, Row, Table, build_table


def two_runs(tmp_path):
    for name, loss in (("good", "rpg_ufkl"), ("bad", "rpg_urkl")):
        write_run(tmp_path / name, records([0.1, 0.3, 0.2]), config(name, loss=loss))
    return tmp_path / "bad"


def loaded(tmp_path):
    notes = []
    table = build_table(load_runs([tmp_path], notes), notes)
    return {row.label: row for row in table.rows}, table.notes


def test_not_a_number_is_neither_last_nor_best(tmp_path, capsys):
    bad = two_runs(tmp_path)
    values = [0.1, 0.3, float("nan")]
    write_run(bad, [(step, {"val-core/aime24/acc/mean@1": v}) for step, v in enumerate(values)], config("bad", steps=2))
    rows, notes = loaded(tmp_path)
    cell = rows["RPG-URKL"].cells["AIME24"]
    assert (cell.last, cell.best) == (0.3, 0.3)
    assert "bad: val-core/aime24/acc/mean@1 is not finite at step 2; left out" in notes
    assert "bad: Last on AIME24 is of step 1; 2 is the run's last step" in notes
    assert main(["table", str(tmp_path)]) == 1
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize("step", ['"x"', "1.5", "-1", "true", "null", "NaN", "Infinity", "1e400", "[1]", "9" * 400])
def test_steps_that_are_no_steps(tmp_path, capsys, step):
    bad = two_runs(tmp_path)
    with open(bad / "metrics.jsonl", "a") as out:
        out.write(f'{{"step": {step}, "data": {{}}}}\n')
    assert main(["table", str(tmp_path)]) == 1
    assert "metrics.jsonl, line 6: not a record" in capsys.readouterr().out
    assert main(["table", str(bad)]) == 2


def test_steps():
    assert [as_step(value) for value in (0, 3, 4.0)] == [0, 3, 4]


@pytest.mark.parametrize("content", ["", "- a\n", "text", "a: 2024-99-99", "a: &a {b: *a}", "{" * 3000, "\x00\xff"])
def test_a_configuration_of_another_kind(tmp_path, capsys, content):
    bad = two_runs(tmp_path)
    (bad / "config.yaml").write_text(content, encoding="latin-1")
    rows, notes = loaded(tmp_path)
    assert set(rows) == {"RPG-UFKL (judge verified)", "bad (judge not recorded)"}
    assert any(f"{bad / 'config.yaml'}: " in note and "restore it or remove it; left out" in note for note in notes)
    assert exit_code(notes) == 1


def test_a_setting_of_another_type_is_left_out_by_itself(tmp_path):
    bad = two_runs(tmp_path)
    settings = config("bad")
    settings["trainer"]["total_training_steps"] = "many"
    settings["algorithm"] = ["rpg"]
    write_run(bad, records([0.1]), settings)
    rows, notes = loaded(tmp_path)
    assert rows["RPG-URKL"].runs[0].planned_steps is None
    assert f"bad: {bad / 'config.yaml'}: trainer.total_training_steps is 'many', not int or float; left out" in notes
    assert f"bad: {bad / 'config.yaml'}: algorithm is ['rpg'], not dict; left out" in notes


def test_references_in_yaml_do_not_grow():
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(Exception, match="a reference"):
        parse_yaml("\n".join(lines))


def test_torn_samples_leave_the_interval_out(tmp_path, capsys):
    bad = two_runs(tmp_path)
    line = json.dumps({"input": "p", "output": "First\u2028then\x85", "gts": "1", "acc": 1.0}, ensure_ascii=False)
    for run, text in ((bad, f"{line}\n{line[:30]}"), (tmp_path / "good", f"{line}\n{line}\n")):
        (run / "validation").mkdir()
        (run / "validation" / "4.jsonl").write_text(text, encoding="utf-8")
    rows, notes = loaded(tmp_path)
    assert rows["RPG-UFKL"].cells["AIME24"].interval == (1.0, 1.0)
    assert rows["RPG-URKL"].cells["AIME24"].interval is None
    assert any("4.jsonl, line 2: not a validation sample" in note for note in notes)
    assert main(["table", str(tmp_path)]) == 1


def test_a_damaged_event_file_is_refused_where_its_loader_ends_in_silence(tmp_path):
    write_events(tmp_path / "tb", records([0.1, 0.3]))
    (file,) = (tmp_path / "tb").iterdir()
    whole = file.read_bytes()
    (run,) = load_runs([tmp_path], [])
    file.write_bytes(whole[:-9])
    (cut,) = load_runs([tmp_path], [])
    assert "the end is cut off" in cut.notes[0]
    assert sum(map(len, cut.history.values())) == sum(map(len, run.history.values())) - 1
    for place in (3, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ResultsError, match=r"byte \d+: wrong checksum"):
            load_runs([tmp_path], [])


def test_a_path_without_a_run_beside_one_with(tmp_path, capsys):
    two_runs(tmp_path)
    assert main(["table", str(tmp_path), str(tmp_path / "nowhere")]) == 1
    assert "nowhere: no such file or directory; left out" in capsys.readouterr().out
    assert main(["table", str(tmp_path / "nowhere")]) == 2


HOSTILE = r"a|b <script>x</script> \input{y} $\frac$ [l](x) & 50%" + "\nnext\u2028line\x1b[0m"


def test_no_format_takes_a_name_for_its_own():
    table = Table("t", ["AIME24"], [Row(HOSTILE, "GRPO", {"AIME24": Cell(0.5, 0.5)})], [HOSTILE])
    text = FORMATS["md"](table)
    assert r"a&#124;b &lt;script>x&lt;/script> \input{y} \$\frac\$ [l]&#40;x) &amp; 50%\nnext\u2028line\x1b[0m" in text
    tex = FORMATS["tex"](table)
    assert r"a\textbar{}b \textless{}script\textgreater{}x" in tex
    assert r"\textbackslash{}input\{y\} \$\textbackslash{}frac\$ {[}l{]}(x) \& 50\%" in tex
    assert next(line for line in tex.splitlines() if "next" in line).endswith(r" \\")
    (row,) = csv.DictReader(io.StringIO(FORMATS["csv"](table)))
    assert row["method"].startswith("a|b <script>")
    assert json.loads(FORMATS["json"](table))["rows"][0]["method"] == HOSTILE


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_csv_holds_no_formula(text):
    assert escape.csv_field(text) == f"'{text}"
    assert escape.csv_field(f"x{text}") == f"x{text}"


@pytest.mark.parametrize("text", [r"$\frac$", "$x$", r"\$x$", "$$$", "price 5$"])
def test_a_name_with_dollars_is_no_mathematics(text):
    shown = escape.picture(text)
    assert not is_math_text(shown)
    assert shown.replace(r"\$", "$") == text  # what matplotlib then draws
    with pytest.raises(ValueError, match="frac"):
        mathtext.MathTextParser("agg").parse(r"$\frac$")


def test_one_line():
    assert escape.printable("a\nb\u2028c\x85\ud800ü") == r"a\nb\u2028c\x85\ud800ü"
    assert escape.html("'<b>\"&") == "&#x27;&lt;b&gt;&quot;&amp;"
    assert escape.picture("_x") == " _x"
    with pytest.raises(ResultsError, match="no such file"):
        load_runs([], ["x: no such file"])
