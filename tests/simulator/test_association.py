from hypothesis import given
from hypothesis import strategies as st

from simulator.association import Association


def test_members_in_the_order_of_their_numbers():
    association = Association({9: 1, 4: 2, 7: 1, 5: 1})
    assert association.members(1) == [5, 7, 9]
    assert association.members(2) == [4]
    assert association.members(3) == []
    assert list(association.items()) == [(9, 1), (4, 2), (7, 1), (5, 1)]


def test_what_is_given_out_is_a_copy():
    association = Association({4: 1})
    association.members(1).append(5)
    assert association.members(1) == [4]


devices, gateways = st.integers(10, 20), st.integers(0, 3)
changes = st.lists(st.tuples(devices, st.none() | gateways))


@given(st.dictionaries(devices, gateways), changes)
def test_members_are_those_who_name_the_gateway(first, changes):
    association, plain = Association(first), dict(first)
    for device, gateway in changes:
        if gateway is not None:
            association[device] = plain[device] = gateway
        elif device in plain:
            del association[device]
            del plain[device]
    assert dict(association) == plain
    for gateway in range(4):
        assert association.members(gateway) == sorted(d for d in plain if plain[d] == gateway)
