"""Overrides that this package writes: Hydra reads back what was meant, whatever the text. Ctrl-C is the script's."""

import os
import signal
import subprocess
import sys

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from rpg.launching.children import call
from rpg.launching.overrides import BadSetting, override

TRICKY = ["null", "True", "nan", "1e-4", "it's", 'a"b', "\\", "x\\'", "a,b", "a=b", "(", "[", "{", "$x", "ü", " ", ""]
TEXT = st.text(st.sampled_from("ab_/.-'\"\\ ,=()[]{}$ü1\n") | st.characters(exclude_categories=["Cs"])).filter(
    lambda text: "${" not in text
)


def read(text: str):
    return OverridesParser.create().parse_overrides([text])[0].value()


@given(TEXT)
@example("nan_x")
@example("/inf")
def test_a_text_is_read_back(text):
    assert read(override("key", text)) == text
    assert read(override("key", [text, "/plain", text])) == [text, "/plain", text]


@pytest.mark.parametrize("text", TRICKY)
def test_a_tricky_text_is_read_back(text):
    assert read(override("key", text)) == text


def test_what_needs_no_quotes_has_none():
    assert override("trainer.default_local_dir", "/runs/a_b-1.0") == "trainer.default_local_dir=/runs/a_b-1.0"
    assert override("rpg.script", "rpg_cpu_urkl1e-4") == "rpg.script=rpg_cpu_urkl1e-4"
    assert override("data.val_files", ["/a", "/b c"]) == "data.val_files=[/a,'/b c']"


@pytest.mark.parametrize("text", ["/a/${x}", "\udcff"])
def test_what_no_configuration_can_hold(text):
    with pytest.raises(BadSetting, match=r"^--dir="):
        override("--dir", text)


def test_ctrl_c_is_the_scripts():
    """It takes a second to end, and has it."""
    script = "trap 'sleep 1; echo ended; exit 130' INT; echo up; while :; do sleep 0.05; done"
    code = f"from rpg.launching.children import call; print(call(['bash', '-c', {script!r}]))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=120)[0] == "ended\n130\n"
    assert process.returncode == 0


def test_a_script_that_a_signal_ended_has_the_shells_exit_code():
    assert call(["bash", "-c", "kill -TERM $$"]) == 143
