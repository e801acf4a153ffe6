"""The process that symbolic.py starts: math-verify loaded once, and forked children that it asks."""

import gc
import json
import logging
import os
import resource
import signal
import socket
import sys

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

MEMORY_LIMIT = 1 << 30  # bytes of address space on top of what the helper itself maps
PACKET = 65536
SHOWN = 200  # characters of an answer that are sent back
# The release's call: truth as LaTeX, response as plain expression and LaTeX
TRUTH_READERS = [LatexExtractionConfig()]
RESPONSE_READERS = [ExprExtractionConfig(), LatexExtractionConfig()]
WARM_UP = (  # loads what sympy and the parser build on first use, so that children inherit it
    ("\\frac{3}{4}", "\\frac{6}{8}"),
    ("\\sqrt{2}", "1.41421"),
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("x^2-1", "(x-1)(x+1)"),
    ("(1,2)", "(1, 3)"),
    ("\\{1,2\\}", "\\{2,3\\}"),
    ("[0,1) \\cup (2,3]", "(2,3] \\cup [0,1)"),
    ("\\frac{\\pi}{6}", "\\arctan(\\frac{1}{\\sqrt{3}})"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
    ("y = 2x+1", "y = 1+2x"),
    ("e^{2}", "\\log(2)"),
    ("3+4i", "4i+3"),
    ("x \\le 3", "x < 3"),
)


def read_answer(response: str) -> list:
    """What the library reads as the answer of a whole response: expressions and, last, their text."""
    return parse(response, RESPONSE_READERS, parsing_timeout=None)  # type: ignore[arg-type]


def judge_response(truth: str, response: str) -> str:
    """Verdict "1" or "0" on a whole response, and the text of the answer that the library read; its alarms are off."""
    wanted = parse(f"\\boxed{{{truth}}}", TRUTH_READERS, parsing_timeout=None)  # type: ignore[arg-type]
    said = read_answer(response)
    right = bool(wanted and said) and verify(wanted, said, timeout_seconds=None)
    text = next((part for part in reversed(said) if isinstance(part, str)), "")
    return f"{right:d}{text[:SHOWN]}"


def received(requests: socket.socket) -> str:
    """One request, a line of JSON in packets; "" when the other end has closed."""
    data = b""
    while not data.endswith(b"\n"):
        packet = requests.recv(PACKET)
        if not packet:
            return ""
        data += packet
    return data.decode()


def reply_until_closed(requests: socket.socket) -> None:
    """In a child: answer requests; the kernel ends the process where one passes its limits."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    while line := received(requests):
        truth, response, time_limit = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, time_limit)
        reply = judge_response(truth, response)
        signal.setitimer(signal.ITIMER_PROF, 0)
        requests.send(reply.encode("utf-8", "replace"))


def serve(forks: socket.socket) -> None:
    """Fork a child for every socket that is sent, until the other end closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    while True:
        data, descriptors, _, _ = socket.recv_fds(forks, 16, 1)
        if not data:
            return
        requests = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            forks.close()
            try:
                reply_until_closed(requests)
            finally:  # memory or recursion ran out: no verdict, no traceback, no return to the loop
                os._exit(0)
        requests.close()


def main() -> None:
    """Load and warm the library, report ready, serve."""
    logging.disable(logging.CRITICAL)  # the library warns that its own time limits are off
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    forks = socket.socket(fileno=int(sys.argv[1]))
    for truth, answer in WARM_UP:
        judge_response(truth, f"${answer}$")
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    forks.send(b"ready")
    serve(forks)


if __name__ == "__main__":
    main()
