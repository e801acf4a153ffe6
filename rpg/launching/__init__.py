"""How this package starts a launch script: overrides that hold any text, its configuration, Ctrl-C."""
