"""Fixes for faults of verl 0.9.1, TransferQueue and vLLM, one per file.

The first line of each file names the version and the fault; its docstring ends with the condition for its removal.
"""
