"""Fixes for faults of verl 0.9.1, TransferQueue and vLLM, a file for each part that has one.

The first line of each file names the version and the fault; its docstring ends with the condition for its removal.
"""
