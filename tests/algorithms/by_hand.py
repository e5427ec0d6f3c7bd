"""What the algorithms' tests share: a network and a recorder that can be followed by hand."""

from selection.associators import Nearest, NearestSection
from selection.ledger import Ledger
from selection.manager import DeviceManager
from selection.simple import SelectAll, SelectAllSection
from selection.utility import LearningUtility
from simulator.networks.table import TableNetwork
from simulator.units import SECOND


def manager(topology, selector=None, budget=None):
    """Who asks for everybody, or for whom ``selector`` says."""
    ledger = Ledger(LearningUtility(list(topology.devices)), budget)
    selector = selector or SelectAll(SelectAllSection())
    return DeviceManager(selector, Nearest(NearestSection()), ledger)


class ListRecorder:
    def __init__(self):
        self.rows, self.transfers = [], []

    def transfer(self, end, status, flow, src, dst, kind, nbytes, start, reason, *_):
        self.transfers.append((end // SECOND, status, src, dst))

    def trained(self, time, update):
        pass

    def alarm(self, time, tag):
        pass

    def row(self, time, row):
        self.rows.append({"time_s": time / SECOND} | row)


class HandNetwork(TableNetwork):
    """Loses the flows with the given numbers; ``slow`` ones take so many seconds."""

    lose: tuple
    slow: dict

    def send(self, now, src, dst, nbytes):
        usual = self._delays[src, dst]
        self._delays[src, dst] = self.slow.get(self._sent, usual // SECOND) * SECOND
        flow = super().send(now, src, dst, nbytes)
        self._delays[src, dst] = usual
        return flow

    def advance(self, limit):
        done = super().advance(limit)
        return done and (done._replace(lost="gone") if done.flow in self.lose else done)
