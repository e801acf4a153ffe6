"""Overrides that this package writes: Hydra reads back what was meant, whatever the text. Ctrl-C is the script's."""

import os
import signal
import subprocess
import sys

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from rpg.launching.overrides import BadSetting, override

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
