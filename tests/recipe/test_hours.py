"""The hours that recipe/rpg/README.md has by computation are those of the script."""

from scripts import hours
from scripts.make_recipe import RECIPE


def test_the_readme_has_the_scripts_table():
    assert hours.table() in (RECIPE / "README.md").read_text()
