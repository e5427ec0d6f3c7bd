// What all networks in C++ have in common.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace meshfl {

using Time = int64_t;  // in ns
using Node = int64_t;

constexpr Time kNever = std::numeric_limits<Time>::max();
constexpr double kForever = 0x1p62;  // ns: FOREVER in parts.py
constexpr double kSlack = 1e-3;      // ns: SLACK_NS in arrivals.py

// Of several at one instant the lowest flow comes first.
struct Arrival {
    Time time;
    int64_t flow;
    auto operator<=>(const Arrival&) const = default;
};

}  // namespace meshfl
