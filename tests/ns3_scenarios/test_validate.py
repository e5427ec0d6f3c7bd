"""What a comparison makes of transfers that are lost; ns-3 itself is not needed."""

import math
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from ns3_scenarios.fidelity import draw_fidelity, fidelity_table
from ns3_scenarios.validate import Played, _against_itself, _fidelity, _play
from simulator.network import Completion
from simulator.networks.traffic import Send

LIVE = [Played(np.array([1.0, 2.0, 4.0]), 4.0, 1.0), Played(np.array([1.0, 2.0, 2.0]), 4.0, 1.0)]
ONE_LOST = Played(np.array([1.0, 2.0, math.nan]), 4.0, 1.0)
ALL_LOST = Played(np.full(3, math.nan), 0.0, 1.0)


class Losing:
    """Takes 1 s each; loses the second at a deadline of an hour."""

    def __init__(self):
        ends = [(1, ""), (3600, "deadline"), (3, "")]
        self._left = [Completion(i, s * 10**9, lost) for i, (s, lost) in enumerate(ends)]
        self._sent = 0

    def send(self, now, src, dst, nbytes):
        self._sent += 1
        return self._sent - 1

    def advance(self, limit):
        ended = [done for done in self._left if done.time <= limit and done.flow < self._sent]
        if not ended:
            return None
        first = min(ended, key=lambda done: done.time)
        self._left.remove(first)
        return first


def table(rows):
    out = StringIO()
    Console(file=out, width=80).print(fidelity_table(rows))
    return out.getvalue()


def test_a_deadline_is_no_duration():
    played = _play(Losing(), [Send(i * 10**9, 0, 1, 10) for i in range(3)])
    assert played.arrived.tolist() == [1, 1]
    assert played.lost == 1
    assert played.makespan_s == 3


def test_lost_transfers_are_counted_and_told():
    row = _fidelity("heavy", "profile", ONE_LOST, LIVE)
    assert (row.transfers, row.lost) == (3, 1)
    assert row.median_error == 0
    assert row.mean_bias == pytest.approx(1.5 / np.mean([7 / 3, 5 / 3]) - 1)
    itself = _against_itself("heavy", [*LIVE, ONE_LOST, ONE_LOST])
    assert itself.lost == 0.5
    said = table([itself, row])
    assert "lost" in said
    assert "0.5" in said
    assert "…" not in said
    assert "lost" not in table([_fidelity("heavy", "profile", LIVE[0], LIVE)])


def test_where_nothing_arrives_there_is_nothing_to_compare(tmp_path):
    row = _fidelity("heavy", "profile", ALL_LOST, LIVE)
    assert row.lost == 3
    assert math.isnan(row.ks)
    assert "nan" in table([row])
    played = {"heavy": {"ns3": LIVE[0], "profile": ALL_LOST}}
    assert draw_fidelity(played, "title", tmp_path / "f.png").exists()
