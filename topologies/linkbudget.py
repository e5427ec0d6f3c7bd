"""A quick estimate of received power, for pictures and first looks; ns-3 has the real models.

Free space up to 100 m, beyond it 27 dB a decade: the urban exponent 2.7, which is within 7 dB of
ns-3's HybridBuildings from 30 m to 5 km where ``holds`` says so. Elsewhere ns-3 has up to some
60 dB less if one end is above the roofs, up to some 100 dB less if none is (ends of 3 to 60 m). It
knows nothing of buildings, terrain, heights or where antennas point.
"""

from __future__ import annotations

import math

from simulator.errors import UserError
from simulator.units import NodeId
from topologies.geography import Position, distance_m
from topologies.records import Node, Radio, Tier
from topologies.topology import Topology

REFERENCE_M = 100.0
EXPONENT = 2.7
ROOF_M = 20.0
"""Where HybridBuildings takes the roofs of a city to be."""
STREET_M = 200.0
"""Up to here HybridBuildings sees along a street."""
FAR_M = 1000.0
"""From here HybridBuildings asks only that one end is above the roofs."""
SENSITIVITY_DBM = -92.0
"""The default of [network] sensitivity_dbm: weaker frames are not noticed."""
CENTRE_GHZ = {2.4: 2.437, 5.0: 5.2}


def path_loss_db(length_m: float, frequency_ghz: float) -> float:
    near_m = min(max(length_m, 1.0), REFERENCE_M)
    free = 20 * math.log10(near_m) + 20 * math.log10(frequency_ghz) + 32.45
    return free + 10 * EXPONENT * math.log10(max(length_m, REFERENCE_M) / REFERENCE_M)


def holds(a: Position, b: Position) -> bool:
    """Whether the estimate between these places is near what ns-3 says by default."""
    length_m, above = distance_m(a, b), (a.z_m >= ROOF_M) + (b.z_m >= ROOF_M)
    return length_m <= STREET_M or above == 2 or (above == 1 and length_m > FAR_M)


def rssi_dbm(topology: Topology, places: dict[NodeId, Position], src: NodeId, dst: NodeId) -> float:
    """What ``dst`` hears of ``src`` under the topology's radio."""
    radio = topology.radio
    if radio is None:
        raise UserError(
            f"topology {topology.name!r} has no radio profile, so no received power; "
            'add one under "radios"'
        )
    sender, receiver = topology.nodes[src], topology.nodes[dst]
    power = radio.tx_power_dbm if sender.tx_power_dbm is None else sender.tx_power_dbm
    loss = path_loss_db(distance_m(places[src], places[dst]), CENTRE_GHZ[radio.band_ghz])
    return power + gain_dbi(sender, radio) + gain_dbi(receiver, radio) - loss


def gain_dbi(node: Node, radio: Radio) -> float:
    if node.antenna_gain_dbi is not None:
        return node.antenna_gain_dbi
    return radio.gateway_gain_dbi if node.tier is Tier.GATEWAY else radio.device_gain_dbi
