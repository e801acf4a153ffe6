"""Problem sets in the schema of the recipe: sources, builders, checks, and the toy task."""
