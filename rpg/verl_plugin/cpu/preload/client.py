"""`client.py SOCKET ARGUMENT...`: run the arguments like python, in a fork of the import server.

Imports little, and only the standard library, because every process of a run starts with it.
"""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    address, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    listed = map(int, os.listdir("/proc/self/fd"))  # one is of the listing itself, and closed
    files = [file for file in listed if os.path.exists(f"/proc/self/fd/{file}") and os.get_inheritable(file)]
    connection.connect(address)
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "files": files,
        "group": os.getpgrp(),
    }
    socket.send_fds(connection, [b" "], files)
    connection.sendall(json.dumps(request).encode() + b"\n")
    answers = connection.makefile()
    child = int(answers.readline() or 0)
    if not child:
        sys.exit(f"the import server at {address} is gone")
    for number in FORWARDED:
        signal.signal(number, lambda received, frame: os.kill(child, received))
    status = int(answers.readline() or -signal.SIGKILL)
    if status < 0:  # the child ended by a signal: end in the same way, for the parent
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
