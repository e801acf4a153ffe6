"""Faults of verl 0.9.1, TransferQueue and vLLM that the plugin mends, a file each.

The first line of each file names the fault and the version. Each docstring ends with what shows that the file may go.
"""
