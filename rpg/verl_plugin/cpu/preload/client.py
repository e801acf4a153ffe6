"""`client.py SOCKET ARGUMENT...`: run as python would run the arguments, in a fork of the import server.

Standard library only, and little of it: this is started for every process, before its work begins.
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
    files = []  # which a program started from here would inherit
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                files.append(int(name))
        except OSError:  # the descriptor of the listing itself, closed by now
            continue
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
    if status < 0:  # ended by a signal: end in the same way, as whoever waits for this process expects
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
