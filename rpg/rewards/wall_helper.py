"""What a helper process of wall.py does once its library is loaded: forks children, which answer within limits."""

import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable

MEMORY_LIMIT = 1 << 30  # bytes of address space on top of what the helper itself maps
PACKET = 65536
Answer = Callable[..., str]


def received(requests: socket.socket) -> str:
    """One request, a line of JSON in packets; "" when the other end has closed."""
    data = b""
    while not data.endswith(b"\n"):
        packet = requests.recv(PACKET)
        if not packet:
            return ""
        data += packet
    return data.decode()


def reply_until_closed(requests: socket.socket, answer: Answer) -> None:
    """In a child: answer requests; the kernel ends the process where one passes its limits."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # nothing that scores has a file to write
    while line := received(requests):
        time_limit, *request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, time_limit)
        reply = answer(*request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        requests.send(reply.encode("utf-8", "replace"))


def serve(answer: Answer, warm_up: Callable[[], object]) -> None:
    """Warm up, report ready, then fork a child for every socket that is sent, until the other end closes.

    answer: from the parts of a request to the text of the reply; called in the children.
    warm_up: loads what the library loads on first use, so that they inherit it.
    The socket is the process's first argument.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    forks = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    forks.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    while True:
        data, descriptors, _, _ = socket.recv_fds(forks, 16, 1)
        if not data:
            return
        requests = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            forks.close()
            try:
                reply_until_closed(requests, answer)
            finally:  # memory or recursion ran out: no reply, no traceback, no return to the loop
                os._exit(0)
        requests.close()
