// Transfers that come and go, and the capacities they share.
//
// Transfers that compete, directly or through others, form a pool. Rates change only when a transfer
// of the pool starts or ends, so a pool knows when its next one ends, and all other pools stand still.

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "maxmin.h"
#include "units.h"

namespace meshfl {

struct Route {
    Time latency;
    double rate;                   // of a transfer that is alone, in bit/s
    std::vector<int64_t> crossed;  // capacities; one that is crossed twice is there twice
};

// As in sharing.py.
struct Transfer {
    int64_t flow;
    int64_t route;
    double left;  // in 1e-9 bit, so that rate x ns needs no scaling
    double rate;
};

struct Pool;

struct Member : Transfer {
    Member(const Transfer& transfer, const Route& way) : Transfer(transfer), way(way) {}

    const Route& way;
    Pool* pool = nullptr;
    size_t slot = 0;
    double end = 0;  // in ns after the pool's ``since``
};

struct Limit {
    double capacity;
    std::vector<Member*> users;  // one that crosses it twice is there twice
};

struct Pool {
    int64_t number;
    Time since;  // what is left is as of this time
    bool stale;  // it has changed and must share anew before time goes on
    std::vector<std::unique_ptr<Member>> members = {};
    std::set<int64_t> shared = {};  // limits that can bind: those crossed more than once
    size_t departed = 0;            // those gone that may have held it together
    std::optional<Time> planned = {};

    void Add(std::unique_ptr<Member> member) {
        member->pool = this;
        member->slot = members.size();
        members.push_back(std::move(member));
    }

    // The last one takes the free slot.
    std::unique_ptr<Member> Remove(Member& member) {
        auto removed = std::move(members[member.slot]);
        if (member.slot + 1 < members.size()) {
            members[member.slot] = std::move(members.back());
            members[member.slot]->slot = member.slot;
        }
        members.pop_back();
        return removed;
    }

    void Age(Time now) {
        double elapsed = double(now - since);
        since = now;
        for (auto& member : members) member->left -= member->rate * elapsed;
    }

    // Find the ends; the first in whole ns rounded up, at least one ahead.
    Time Plan() {
        double first = kForever;
        for (auto& member : members) {
            member->end = member->left / member->rate;
            first = std::min(first, member->end);
        }
        return first < kForever ? since + std::max<Time>(1, Time(std::ceil(first - kSlack)))
                                : kNever;
    }
};

class Flows {
  public:
    std::unordered_map<int64_t, Route> routes;
    std::map<int64_t, Pool> pools;
    std::set<Arrival> arrivals;  // of what has left
    Time now = 0;

    Flows(const double* capacities, int64_t count) {
        for (int64_t i = 0; i < count; ++i) limits_.push_back({capacities[i], {}});
    }

    void Send(Time time, const Transfer& transfer) {
        if (time > now) {
            while (EndNext(time)) {
            }
            now = time;
        }
        const Route& route = routes.at(transfer.route);
        if (transfer.left == 0)
            arrivals.insert({now + route.latency, transfer.flow});
        else
            Enter(PoolFor(route), transfer);
    }

    // To the first arrival, at or before the limit.
    std::optional<Arrival> Advance(Time limit) {
        while (EndNext(arrivals.empty() ? limit : std::min(limit, arrivals.begin()->time))) {
        }
        bool none = arrivals.empty() || arrivals.begin()->time > limit;
        now = std::max(now, none ? limit : arrivals.begin()->time);
        if (none) return {};
        return arrivals.extract(arrivals.begin()).value();
    }

    void Load(Time since, size_t departed, bool stale, const Transfer* transfers, int64_t count) {
        Pool& pool = Open(since);
        pool.departed = departed;
        for (int64_t i = 0; i < count; ++i) Enter(pool, transfers[i]);
        if (stale) return;
        pool.stale = false;
        Plan(pool);
    }

  private:
    std::vector<Limit> limits_;
    std::set<std::pair<Time, int64_t>> planned_;  // the next end of each pool, and its number
    std::vector<int64_t> stale_;                  // some may be gone, or so no more
    int64_t opened_ = 0;

    Pool& Open(Time since) {
        int64_t number = opened_++;
        stale_.push_back(number);
        return pools.emplace(number, Pool{number, since, true}).first->second;
    }

    // A pool of all who compete with such a transfer.
    Pool& PoolFor(const Route& route) {
        Pool* pool = nullptr;
        for (int64_t index : route.crossed) {
            if (limits_[index].users.empty()) continue;
            Pool* other = limits_[index].users[0]->pool;
            if (other == pool) continue;
            Touch(*other, now);
            pool = pool ? &Merge(*pool, *other) : other;
        }
        return pool ? *pool : Open(now);
    }

    Pool& Merge(Pool& a, Pool& b) {
        Pool &large = a.members.size() < b.members.size() ? b : a, &small = &large == &a ? b : a;
        for (auto& member : small.members) large.Add(std::move(member));
        large.shared.merge(small.shared);
        large.departed += small.departed;
        pools.erase(small.number);
        return large;
    }

    void Enter(Pool& pool, const Transfer& transfer) {
        const Route& route = routes.at(transfer.route);
        pool.Add(std::make_unique<Member>(transfer, route));
        for (int64_t index : route.crossed) {
            auto& users = limits_[index].users;
            users.push_back(pool.members.back().get());
            if (users.size() > 1) pool.shared.insert(index);
        }
    }

    void Leave(Member& member) {
        Pool& pool = *member.pool;
        auto removed = pool.Remove(member);
        size_t held = 0;
        for (int64_t index : member.way.crossed) held += pool.shared.contains(index);
        pool.departed += held > 1;
        for (int64_t index : member.way.crossed) {
            auto& users = limits_[index].users;
            std::swap(*std::find(users.begin(), users.end(), &member), users.back());
            users.pop_back();
            if (users.size() < 2) pool.shared.erase(index);
        }
    }

    // It is about to change.
    void Touch(Pool& pool, Time time) {
        if (pool.stale) return;
        pool.stale = true;
        stale_.push_back(pool.number);
        planned_.erase({*pool.planned, pool.number});
        pool.Age(time);
    }

    // Let the next ones leave whose last byte leaves at or before the limit, if any.
    bool EndNext(Time limit) {
        // Not earlier, so that all that happens at one instant is shared out once.
        if (limit > now) Settle();
        if (planned_.empty() || planned_.begin()->first > limit) return false;
        auto [end, number] = *planned_.begin();
        Pool& pool = pools.at(number);
        double latest = double(end - pool.since) + kSlack;
        std::vector<Member*> ended;
        for (auto& member : pool.members)
            if (member->end <= latest) ended.push_back(member.get());
        Touch(pool, end);
        for (Member* member : ended) {
            arrivals.insert({end + member->way.latency, member->flow});
            Leave(*member);
        }
        if (pool.members.empty()) pools.erase(number);
        now = end;
        return true;
    }

    // Share anew where transfers have started or ended.
    void Settle() {
        std::vector<int64_t> stale;
        std::swap(stale, stale_);
        for (int64_t number : stale) {
            auto place = pools.find(number);
            if (place == pools.end() || !place->second.stale) continue;
            Pool& pool = place->second;
            if (pool.departed <= pool.members.size()) {
                Share(pool);
                continue;
            }
            for (Pool* part : Split(pool)) Share(*part);
            pools.erase(place);
        }
        stale_.clear();
    }

    void Share(Pool& pool) {
        pool.stale = false;
        for (auto& member : pool.members) member->rate = member->way.rate;
        std::vector<Group> groups;
        // By index: the last digit of a rate must not depend on which limit was shared first.
        for (int64_t index : pool.shared) {
            Group& group = groups.emplace_back(Group{limits_[index].capacity, {}});
            for (Member* user : limits_[index].users) group.rates.push_back(&user->rate);
        }
        ShareMaxMin(groups);
        Plan(pool);
    }

    void Plan(Pool& pool) {
        pool.planned = pool.Plan();
        planned_.emplace(*pool.planned, pool.number);
    }

    // The parts of a pool that no longer compete with each other; it is empty after that.
    std::vector<Pool*> Split(Pool& pool) {
        std::vector<Pool*> parts;
        auto members = std::exchange(pool.members, {});
        for (auto& first : members) {
            if (!first) continue;
            Pool& part = Open(pool.since);
            parts.push_back(&part);
            part.Add(std::move(first));
            for (size_t i = 0; i < part.members.size(); ++i)
                for (int64_t index : part.members[i]->way.crossed)
                    if (pool.shared.contains(index)) MoveUsers(index, members, part);
        }
        return parts;
    }

    void MoveUsers(int64_t index, std::vector<std::unique_ptr<Member>>& from, Pool& part) {
        if (!part.shared.insert(index).second) return;
        for (Member* user : limits_[index].users)
            if (user->pool != &part) part.Add(std::move(from[user->slot]));
    }
};

}  // namespace meshfl

using meshfl::Flows;
using meshfl::Time;
using meshfl::Transfer;

extern "C" {

Flows* meshfl_flows_new(const double* capacities, int64_t count) {
    return new Flows(capacities, count);
}

void meshfl_flows_delete(Flows* flows) { delete flows; }

void meshfl_flows_route(Flows* flows, int64_t number, Time latency, double rate,
                        const int64_t* crossed, int64_t count) {
    flows->routes.insert({number, {latency, rate, {crossed, crossed + count}}});
}

void meshfl_flows_send(Flows* flows, Time now, int64_t flow, int64_t route, double left) {
    flows->Send(now, {flow, route, left, 0});
}

// The flow that arrives first, or -1.
int64_t meshfl_flows_advance(Flows* flows, Time limit, Time* time) {
    auto arrival = flows->Advance(limit);
    if (!arrival) return -1;
    *time = arrival->time;
    return arrival->flow;
}

Time meshfl_flows_now(Flows* flows) { return flows->now; }

// How many there are; null: they are only counted. A pool is four numbers: its transfers, since,
// departed, whether stale.
int64_t meshfl_flows_pools(Flows* flows, int64_t* pools) {
    if (pools)
        for (auto& [number, pool] : flows->pools)
            for (int64_t value : {int64_t(pool.members.size()), pool.since, int64_t(pool.departed),
                                  int64_t(pool.stale)})
                *pools++ = value;
    return flows->pools.size();
}

int64_t meshfl_flows_transfers(Flows* flows, Transfer* transfers) {
    int64_t count = 0;
    for (auto& [number, pool] : flows->pools) {
        count += pool.members.size();
        if (transfers)
            for (auto& member : pool.members) *transfers++ = *member;
    }
    return count;
}

int64_t meshfl_flows_arrivals(Flows* flows, meshfl::Arrival* arrivals) {
    if (arrivals) std::copy(flows->arrivals.begin(), flows->arrivals.end(), arrivals);
    return flows->arrivals.size();
}

// Into what is new and empty.
void meshfl_flows_load(Flows* flows, Time now, const meshfl::Arrival* arrivals, int64_t count) {
    flows->now = now;
    flows->arrivals.insert(arrivals, arrivals + count);
}

void meshfl_flows_load_pool(Flows* flows, Time since, int64_t departed, int64_t stale,
                            const Transfer* transfers, int64_t count) {
    flows->Load(since, departed, stale, transfers, count);
}

void meshfl_max_min(double* rates, const double* capacities, const int64_t* sizes,
                    const int64_t* members, int64_t count) {
    std::vector<meshfl::Group> groups;
    for (int64_t k = 0; k < count; ++k) {
        auto& group = groups.emplace_back(meshfl::Group{capacities[k], {}});
        for (int64_t i = 0; i < sizes[k]; ++i) group.rates.push_back(&rates[*members++]);
    }
    meshfl::ShareMaxMin(groups);
}
}
