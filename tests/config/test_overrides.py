"""Hydra reads the overrides of this package as the same text."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from rpg.diagnostics import BadSetting
from rpg.overrides import override

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


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -3, 1e-6, 2.5, [], {}, ["a b", 1, None], [{"a": {"b": "x, y"}}]]
)
def test_a_value_of_a_configuration_is_read_back(value):
    assert read(override("key", value)) == value


@pytest.mark.parametrize("text", ["/a/${x}", "\udcff"])
def test_what_no_configuration_can_hold(text):
    with pytest.raises(BadSetting, match=r"^--dir="):
        override("--dir", text)
