"""The run's end of the pipe to the ns-3 process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from typing import Any

from ns3_scenarios.library import HEADER, library
from simulator.errors import UserError
from simulator.interrupts import withheld


class Ns3Process:
    def __init__(self) -> None:
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "ns3_scenarios.worker", str(library()), str(HEADER)]
        with withheld(signal.SIGINT):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                text=True,
            )

    def tell(self, *command: object) -> None:
        """Say something that needs no answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
        except BrokenPipeError:
            raise self._died() from None

    def ask(self, *command: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.tell(*command)
        try:
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        answer = self._process.stdout.readline()
        if not answer:
            raise self._died()
        return json.loads(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._messages.close()

    def _died(self) -> UserError:
        code = self._process.wait()
        self._messages.seek(0)
        text = self._messages.read().decode(errors="replace")
        lines = text.strip().splitlines()
        shown = lines if len(lines) <= 10 else [*lines[:4], "...", *lines[-5:]]
        return UserError(f"ns-3 ended the simulation (exit code {code}):\n" + "\n".join(shown))
