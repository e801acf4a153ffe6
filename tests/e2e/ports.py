"""A port to listen on; `python ports.py` prints one."""

import random
import socket


def free_port() -> int:
    """Return a port that nothing listens on.

    It lies below those that the kernel gives to a socket without one (32768 to 60999): a process of Ray's that starts
    between this choice and its use could get it. From 10001 to 19999 Ray chooses itself.
    """
    while True:
        port = random.randrange(20000, 32768)
        try:
            socket.create_server(("", port)).close()
        except OSError:
            continue
        return port


if __name__ == "__main__":
    print(free_port())
