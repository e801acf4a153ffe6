"""Problem sets in the one schema the recipe reads: sources, builders, the check, and the toy task."""
