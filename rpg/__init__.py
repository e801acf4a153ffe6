"""RPG: KL-regularised policy gradients for language models, as a plugin for verl 0.9.1."""
