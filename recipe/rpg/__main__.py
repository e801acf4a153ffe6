"""`python -m recipe.rpg OVERRIDE...` from a checkout: the same as `python -m rpg.run`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("rpg.run", run_name="__main__", alter_sys=True)
