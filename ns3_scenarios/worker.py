"""The process that ns-3 lives in: commands in, completions out, one JSON list a line.

ns-3 ends its process on a fatal error and keeps its simulator in globals; so each simulation has
a process of its own, and the run survives it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, TextIO


def main() -> None:
    library, header = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever ns-3 prints is no answer
    import cppyy

    cppyy.load_library(library)  # before the header, else symbols cannot be found
    cppyy.include(header)
    # cppyy's handlers print stacks for 14 seconds before the process may die.
    for name in ("SIGABRT", "SIGSEGV", "SIGFPE", "SIGILL", "SIGBUS"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        serve(cppyy.gbl.meshfl, sys.stdin, answers)
    except cppyy.gbl.std.exception as error:
        sys.exit(" ".join(str(error).split()))  # one line for those who run it, no stack of ours


def serve(meshfl: Any, commands: TextIO, answers: TextIO) -> None:
    net: Any = None
    for line in commands:
        command, *values = json.loads(line)
        match command:
            case "start":
                net.Start(*values)
                continue
            case "compute":
                net.Compute(*values)
                continue
            case "cancel":
                net.Cancel(*values)
                continue
            case "associate":
                net.Associate(*values)
                continue
            case "build":
                del net  # one at a time: ns-3's simulator is global
                net = build(meshfl, *values)
                answer: Any = "built"
            case "advance":
                answer = None
                if net.Advance(*values):
                    done = net.Pop()
                    answer = [done.flow, done.timeNs, done.status, done.radioJ]
            case "energy":
                now, devices = values
                net.Advance(now)
                answer = [[net.RadioJ(d), net.ProcessorJ(d)] for d in devices]
            case "power":
                answer = net.ReceivedPowerDbm(*values)
            case "cpu":
                answer = time.process_time()
            case "events":
                answer = net.Events()
            case "awake":
                answer = net.Awake()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def build(meshfl: Any, options: Any, nodes: Any, links: Any, boxes: Any, gateways: Any) -> Any:
    net = meshfl.Net(filled(meshfl.Options(), options))
    for node in nodes:
        net.AddNode(filled(meshfl.NodeSpec(), node))
    for link in links:
        net.AddBackhaul(filled(meshfl.BackhaulSpec(), link))
    for box in boxes:
        net.AddBuilding(*box)
    net.Build(gateways)
    return net


def filled(target: Any, values: dict[str, Any]) -> Any:
    for name, value in values.items():
        setattr(target, name, value)
    return target


if __name__ == "__main__":
    main()
