// All channels of a network: who comes on the air when, and what happens next.

#include <map>
#include <set>
#include <utility>

#include "cell.h"

namespace meshfl {

struct Newcomer {
    int64_t channel;
    Time begin;
    Transfer transfer;
};

struct Channel {
    Cell cell;
    std::optional<Event> next;
};

class Channels {
  public:
    std::map<int64_t, Channel> all;
    std::map<std::pair<Time, int64_t>, Newcomer> entering;  // by when they begin, and flow
    std::set<Arrival> arrivals;                             // of what has left its channel

    void Plan(int64_t number, Channel& channel) {
        if (channel.next) planned_.erase({channel.next->time, number});
        channel.next = channel.cell.Next();
        if (channel.next) planned_.emplace(channel.next->time, number);
    }

    void Close(int64_t number) {
        auto place = all.find(number);
        if (place == all.end()) return;
        if (place->second.next) planned_.erase({place->second.next->time, number});
        all.erase(place);
    }

    // To the first arrival, at or before the limit.
    std::optional<Arrival> Advance(Time limit) {
        while (Step(arrivals.empty() ? limit : std::min(limit, arrivals.begin()->time))) {
        }
        if (arrivals.empty() || arrivals.begin()->time > limit) return {};
        return arrivals.extract(arrivals.begin()).value();
    }

  private:
    // Let the next thing happen that happens at or before the limit, if any.
    bool Step(Time limit) {
        Time begin = entering.empty() ? kNever : entering.begin()->first.first;
        Time next = planned_.empty() ? kNever : planned_.begin()->first;
        if (std::min(begin, next) > limit) return false;
        if (begin <= next)
            Enter(begin);
        else
            Happen(planned_.begin()->second);
        return true;
    }

    void Happen(int64_t number) {
        Channel& channel = all.at(number);
        Event event = *channel.next;
        if (event.is_end) arrivals.insert({event.time + event.load->latency, event.load->flow});
        channel.cell.Handle(event);
        Plan(number, channel);
    }

    void Enter(Time begin) {
        int64_t number = entering.begin()->second.channel;
        newcomers_.clear();
        auto first = entering.begin();
        while (first != entering.end() && first->second.begin == begin &&
               first->second.channel == number) {
            newcomers_.push_back(first->second.transfer);
            first = entering.erase(first);
        }
        Channel& channel = all.at(number);
        channel.cell.Enter(begin, newcomers_);
        Plan(number, channel);
    }

    std::set<std::pair<Time, int64_t>> planned_;  // the next event of each channel, and its number
    std::vector<Transfer> newcomers_;
};

}  // namespace meshfl

using meshfl::Channels;
using meshfl::Time;

extern "C" {

Channels* meshfl_channels_new() { return new Channels; }

void meshfl_channels_delete(Channels* channels) { delete channels; }

// A channel, with those who are on the air already.
void meshfl_channels_open(Channels* channels, int64_t number, const meshfl::Contention* constants,
                          Time now, const meshfl::Transfer* transfers, int64_t count) {
    channels->Close(number);
    meshfl::Channel opened{{*constants, now}, {}};
    auto& channel = channels->all.emplace(number, std::move(opened)).first->second;
    for (int64_t i = 0; i < count; ++i) channel.cell.Add(transfers[i]);
    channels->Plan(number, channel);
}

void meshfl_channels_send(Channels* channels, int64_t number, Time begin, int64_t flow,
                          int64_t access_point, int64_t device, int64_t up, double work,
                          double slope, double pace, Time latency) {
    meshfl::Transfer transfer{flow, access_point, device, up, work, slope, pace, latency};
    channels->entering.emplace(std::pair(begin, flow), meshfl::Newcomer{number, begin, transfer});
}

// The flow that arrives first, or -1.
int64_t meshfl_channels_advance(Channels* channels, Time limit, Time* time) {
    auto arrival = channels->Advance(limit);
    if (!arrival) return -1;
    *time = arrival->time;
    return arrival->flow;
}

void meshfl_channels_arrive(Channels* channels, Time time, int64_t flow) {
    channels->arrivals.insert({time, flow});
}

// How many there are; null: they are only counted.
int64_t meshfl_channels_entering(Channels* channels, meshfl::Newcomer* newcomers) {
    if (newcomers)
        for (auto& [key, newcomer] : channels->entering) *newcomers++ = newcomer;
    return channels->entering.size();
}

int64_t meshfl_channels_arrivals(Channels* channels, meshfl::Arrival* arrivals) {
    if (arrivals) std::copy(channels->arrivals.begin(), channels->arrivals.end(), arrivals);
    return channels->arrivals.size();
}

int64_t meshfl_channels_on_air(Channels* channels, int64_t number, Time* now,
                               meshfl::Transfer* transfers) {
    auto& cell = channels->all.at(number).cell;
    *now = cell.now();
    if (transfers)
        for (auto& load : cell.loads()) *transfers++ = *load;
    return cell.loads().size();
}
}
