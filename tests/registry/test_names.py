"""The launch scripts found by name, and the methods that they train."""

import pytest

from rpg.diagnostics import UserError
from rpg.objectives import LOSS_NAMES
from rpg.registry.methods import LABELS, METHODS
from rpg.registry.scripts import RECIPE, find


def test_a_script_is_found_by_name_and_by_path(tmp_path):
    for written in ("dapo_7b", "run_dapo_7b.sh", "recipe/rpg/7b/run_dapo_7b.sh"):
        script = find(written)
        assert (script.name, script.size, script.about) == ("dapo_7b", "7b", "DAPO; Qwen2.5-Math-7B")
        assert script.overrides == ("model=qwen2.5-math-7b", "optim=adamw", "method=dapo")
    with pytest.raises(UserError, match=r"rpg_7b_urkl1e-4_rf\b"):
        find("rpg_7b_urkl_rf")
    own = tmp_path / "run_dapo_7b.sh"
    own.write_text("")
    with pytest.raises(UserError, match="bash"):
        find(own)


def test_every_entry_of_the_group_is_a_method_and_every_loss_has_one():
    texts = {path.stem: path.read_text() for path in (RECIPE / "config/method").iterdir()}
    assert METHODS.keys() == texts.keys()
    modes = {name: text.partition("loss_mode: ")[2].split()[0] for name, text in texts.items()}
    losses = {modes[row.name].replace("${rpg.divergence}", divergence or "rkl") for row, divergence in LABELS.values()}
    assert losses == {*LOSS_NAMES, "vanilla", "gspo", "cispo", "dppo_tv", "sapo"}
