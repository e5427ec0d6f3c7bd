// Max-min fair rates under capacities that groups of them share.
//
// A group's level is the rate at which it fills up, those with lower rates set aside. The lowest level
// of all binds first. Fixing that group's rates can only raise the levels of the others, so a level is
// found anew when its turn comes and something was fixed since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

namespace meshfl {

constexpr double kNoLevel = std::numeric_limits<double>::infinity();

struct Group {
    double capacity;
    std::vector<double*> rates;  // one that counts twice is there twice
};

inline double LevelOf(const Group& group, std::vector<double>& rates) {
    rates.clear();
    for (double* rate : group.rates) rates.push_back(*rate);
    double capacity = group.capacity, waiting = rates.size();
    double fair = capacity / waiting;
    if (*std::min_element(rates.begin(), rates.end()) >= fair) return fair;
    std::sort(rates.begin(), rates.end());
    for (double rate : rates) {
        double level = capacity / waiting;
        if (rate >= level) return level;
        capacity -= rate;
        --waiting;
    }
    return kNoLevel;
}

// Rates are caps before.
inline void ShareMaxMin(const std::vector<Group>& groups) {
    using Entry = std::tuple<double, int64_t, size_t>;  // level, how many were fixed then, group
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (size_t k = 0; k < groups.size(); ++k) queue.emplace(0.0, -1, k);
    std::vector<double> rates;
    for (int64_t fixed = 0; !queue.empty();) {
        auto [level, found_at, k] = queue.top();
        queue.pop();
        if (found_at != fixed) {
            level = LevelOf(groups[k], rates);
            if (!queue.empty() && std::get<0>(queue.top()) < level && level < kNoLevel) {
                queue.emplace(level, fixed, k);
                continue;
            }
        }
        if (level == kNoLevel) continue;
        ++fixed;
        for (double* rate : groups[k].rates) *rate = std::min(*rate, level);
    }
}

}  // namespace meshfl
