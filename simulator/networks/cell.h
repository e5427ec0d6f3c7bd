// How the transfers of one Wi-Fi channel share its time.
//
// A transfer is so much work: the seconds it takes alone. Per second of channel time a lone transfer
// does one second of its work. Several share:
//
// - An access point contends for the channel once for all that it sends, with a weight that grows
//   slowly in the number of its downlinks; each sending station contends for itself. What an access
//   point gets, its downlinks share in between equal times and equal rates.
// - Contention costs: with more contenders less of the channel's time carries data.
// - When a transfer has ended, its connection is closed before the others go on.
// - Who starts while others are on the air begins with TCP's initial window, which grows by a factor
//   each round trip; a round trip lasts as long as the others' queues say. Alone, that is part of the
//   measured time.
// - An application's pace bounds a device's rate, each way by itself.
//
// What a bounded transfer leaves is shared by the others. Sums are taken in the order in which
// transfers came, so that a nanosecond never depends on who computes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "units.h"

namespace meshfl {

constexpr double kSecond = 1e9;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kInitialWindow = 10 * 1448;  // bytes

// As in cells.py.
struct Contention {
    double access_point;
    double rate_fairness;
    double uplink;
    double downlink_cost;
    double uplink_cost;
    double round_trip_s;
    double downlink_queue_s;
    double uplink_queue_s;
    double window_growth;
    double closing_s;
};

// All that must be known of a transfer to go on with it; as in cells.py.
struct Transfer {
    int64_t flow;
    Node access_point;
    Node device;
    int64_t up;
    double left;                 // work still to do, in ns of a lone transfer
    double slope;                // work per byte
    double pace;                 // bytes per ns that the device's application allows
    Time latency;                // of what comes after this channel
    double window = kUnbounded;  // bytes per round trip
    double rate = 0;             // work done per ns
    Time since = 0;              // when it came on the air
    Time grows_at = kNever;
};

struct Sender;

struct Load : Transfer {
    explicit Load(const Transfer& transfer)
        : Transfer(transfer), cap(pace * slope), most(cap), greedy_below(0.99 * pace * slope) {}

    Sender* sender = nullptr;
    double demand = 0, weight = 0;  // among those of its access point, and among all
    double cap, most;               // work per ns that its pace allows, and its window too
    double greedy_below;            // at a lower rate it would go faster if it could, and fills queues

    bool IsGreedy() const { return rate < greedy_below; }
    bool IsStarting() const { return grows_at != kNever; }

    void ForgetWindow() {
        window = kUnbounded;
        grows_at = kNever;
        most = cap;
    }
};

// An access point with its downlinks, or a station with its uplinks.
struct Sender {
    explicit Sender(Node node) : node(node) {}

    Node node;
    std::vector<Load*> loads;  // the oldest first
    double queue = 0;          // of a station, in ns of lone transfers, as long as it can be
    bool queues = false;
};

struct Event {
    Time time;
    Load* load;
    bool is_end;  // else a round trip has passed
};

class Cell {
  public:
    Cell(const Contention& constants, Time now)
        : c_(constants),
          closing_(Time(std::nearbyint(c_.closing_s * kSecond))),
          least_round_trip_(Time(std::nearbyint(c_.round_trip_s * kSecond))),
          longest_down_(kSecond * c_.downlink_queue_s),
          longest_up_(kSecond * c_.uplink_queue_s),
          now_(now) {}

    const std::vector<std::unique_ptr<Load>>& loads() const { return loads_; }
    Time now() const { return now_; }

    // All that come at one instant; the cell is shared anew after each, if it matters.
    void Enter(Time now, std::vector<Transfer>& newcomers) {
        if (loads_.empty()) newcomers[0].left += double(std::max<Time>(0, now_ + closing_ - now));
        Age(now, 0);
        bool crowded = false, starting = false;
        for (auto& other : loads_) {
            crowded |= other->since < now;
            starting |= other->IsStarting();
        }
        for (Transfer& transfer : newcomers) {
            transfer.since = now;
            Load& load = Add(transfer);
            if (crowded) {
                Queues queues = MeasureQueues();
                load.window = kInitialWindow;
                load.grows_at = now + RoundTrip(load, queues);
                Share(queues);
            } else if (starting || &transfer == &newcomers.back()) {
                Share();
            }
        }
    }

    // As it is, nothing shared yet.
    Load& Add(const Transfer& transfer) {
        Load& load = *loads_.emplace_back(std::make_unique<Load>(transfer));
        load.demand = std::pow(load.slope, c_.rate_fairness);
        load.sender = &SenderOf(load);
        load.sender->loads.push_back(&load);
        Weigh(*load.sender);
        if (load.pace < kUnbounded) Pace(load);
        return load;
    }

    // Of several at one instant the first.
    std::optional<Event> Next() const {
        std::optional<Event> next;
        for (auto& load : loads_) {
            double ahead = std::max(0.0, std::ceil(load->left / load->rate - kSlack));
            Time end = ahead < kForever ? now_ + Time(ahead) : kNever;
            if (!next || end < next->time) next = {end, load.get(), true};
            if (load->grows_at < next->time) next = {load->grows_at, load.get(), false};
        }
        return next;
    }

    void Handle(const Event& event) {
        if (event.is_end) {
            Age(event.time, closing_);
            Remove(*event.load);
            Share();
        } else {
            Age(event.time, 0);
            Queues queues = MeasureQueues();
            Grow(*event.load, RoundTrip(*event.load, queues));
            Share(queues);
        }
    }

  private:
    // In ns of lone transfers; each station's is left with it.
    struct Queues {
        double down, up;
    };

    Sender& SenderOf(const Load& load) {
        Node node = load.up ? load.device : load.access_point;
        for (auto& sender : senders_[load.up])
            if (sender->node == node) return *sender;
        return *senders_[load.up].emplace_back(std::make_unique<Sender>(node));
    }

    void Remove(const Load& load) {
        auto& senders = senders_[load.up];
        Sender& sender = *load.sender;
        bool is_oldest = sender.loads.front() == &load;
        std::erase(sender.loads, &load);
        if (sender.loads.empty()) {
            std::erase_if(senders, [&](auto& other) { return other.get() == &sender; });
        } else {
            Weigh(sender);
            if (is_oldest) std::sort(senders.begin(), senders.end(), IsOlder);
        }
        auto place = std::find_if(loads_.begin(), loads_.end(),
                                  [&](auto& other) { return other.get() == &load; });
        auto removed = std::move(*place);
        loads_.erase(place);
        if (removed->pace < kUnbounded) Pace(*removed);
    }

    static bool IsOlder(const std::unique_ptr<Sender>& a, const std::unique_ptr<Sender>& b) {
        const Load &x = *a->loads[0], &y = *b->loads[0];
        return std::tie(x.since, x.flow) < std::tie(y.since, y.flow);
    }

    void Weigh(Sender& sender) const {
        double count = sender.loads.size();
        if (sender.loads[0]->up) {
            for (Load* load : sender.loads) load->weight = c_.uplink / count;
            return;
        }
        double demands = 0;
        for (Load* load : sender.loads) demands += load->demand;
        double unit = std::pow(count, c_.access_point) / demands;
        for (Load* load : sender.loads) load->weight = unit * load->demand;
    }

    // Those of one device and direction share its application's pace.
    void Pace(const Load& one) {
        auto shares = [&](const Load& load) {
            return load.device == one.device && load.up == one.up && load.pace < kUnbounded;
        };
        double count = std::count_if(loads_.begin(), loads_.end(),
                                     [&](auto& load) { return shares(*load); });
        for (auto& load : loads_)
            if (shares(*load)) load->cap = load->most = load->pace / count * load->slope;
    }

    void Grow(Load& load, Time round_trip) const {
        load.window *= c_.window_growth;
        load.grows_at = now_ + round_trip;
        if (load.window / double(round_trip) >= load.pace)
            load.ForgetWindow();  // the application is slower
    }

    void Age(Time now, Time standstill) {
        double elapsed = now - now_, still = standstill;
        now_ = now;
        for (auto& load : loads_)
            load->left = load->left - load->rate * elapsed + load->rate * still;
    }

    // Weighted fair shares of the channel's time, bounded by windows and paces.
    void Share(std::optional<Queues> queues = {}) {
        if (loads_.size() == 1) {
            Load& load = *loads_[0];
            load.ForgetWindow();
            load.rate = std::min(1.0, load.most);
            return;
        }
        auto& waiting = waiting_;
        waiting.clear();
        for (auto& senders : senders_)
            for (auto& sender : senders)
                waiting.insert(waiting.end(), sender->loads.begin(), sender->loads.end());
        Bound(queues);
        double free = UsefulTime();
        while (!waiting.empty()) {
            double weights = 0;
            for (Load* load : waiting) weights += load->weight;
            double unit = free / weights;
            size_t unbounded = 0;
            for (Load* load : waiting) {
                load->rate = unit * load->weight;
                if (load->most < load->rate) {
                    load->rate = load->most;
                    free -= load->most;
                } else {
                    waiting[unbounded++] = load;
                }
            }
            if (unbounded == waiting.size()) break;
            waiting.resize(unbounded);
        }
        for (Load* load : waiting)
            if (load->IsStarting()) load->ForgetWindow();  // it has grown to its share
    }

    // The most channel time that those who start can use.
    void Bound(std::optional<Queues> queues) {
        for (auto& load : loads_) {
            if (!load->IsStarting()) continue;
            if (!queues) queues = MeasureQueues();
            double round_trip = RoundTrip(*load, *queues);
            load->most = std::min(load->cap, load->window / round_trip * load->slope);
        }
    }

    // The share of time that carries data; who wants little contends little.
    double UsefulTime() const {
        double busy[2] = {0, 0}, count = loads_.size();
        for (auto& load : loads_) busy[load->up] += std::min(1.0, load->most * count);
        auto contending = [&](int up) { return 1 - 1 / std::max(1.0, busy[up]); };
        double lost = c_.downlink_cost * contending(0) + c_.uplink_cost * contending(1);
        return 1 / (1 + std::max(lost, -0.5));
    }

    // What those that would go faster if they could have still to send.
    Queues MeasureQueues() {
        for (auto& station : senders_[1]) station->queue = 0, station->queues = false;
        queueing_.clear();
        Queues queues{0, 0};
        for (auto& load : loads_) {
            if (!load->IsGreedy()) continue;
            if (!load->up) {
                queues.down += load->left;
                continue;
            }
            Sender& station = *load->sender;
            if (!station.queues) queueing_.push_back(&station);
            station.queues = true;
            station.queue += load->left;
        }
        for (Sender* station : queueing_) {
            station->queue = std::min(station->queue, longest_up_);
            queues.up += station->queue;
        }
        return queues;
    }

    // Longer by the queues of others; none is longer than what is left to send.
    Time RoundTrip(const Load& load, Queues queues) const {
        if (load.up)
            queues.up -= load.sender->queue;
        else if (load.IsGreedy())
            queues.down -= load.left;
        double queued = std::nearbyint(std::min(queues.down, longest_down_) + queues.up);
        return std::max<Time>(1, least_round_trip_ + Time(std::min(queued, kForever / 2)));
    }

    Contention c_;
    Time closing_, least_round_trip_;
    double longest_down_, longest_up_;
    Time now_;  // of its last event; of an empty cell: when its last transfer ended
    std::vector<std::unique_ptr<Load>> loads_;
    std::vector<std::unique_ptr<Sender>> senders_[2];  // down, up; by their oldest
    std::vector<Load*> waiting_;     // while time is shared
    std::vector<Sender*> queueing_;  // while queues are measured
};

}  // namespace meshfl
