"""Hydra reads the overrides of this package as the same text."""

from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

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
    value = [text, "/plain", {"a": text}, None, True, -3, 1e-6]
    assert [read(override("key", text)), read(override("key", value))] == [text, value]
