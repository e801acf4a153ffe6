"""A package, so that `python -m scripts.studies.NAME` finds the studies and not a package of that name elsewhere."""
