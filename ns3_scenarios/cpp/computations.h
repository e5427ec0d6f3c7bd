// Computations: a device is busy for a time, and its end is an event of ns-3's own queue.
#pragma once
#include "net.h"

#include "ns3/event-id.h"
#include "ns3/nstime.h"

#include <deque>
#include <map>

namespace meshfl
{
class Computations
{
  public:
    explicit Computations(std::deque<Done>& done);
    void Start(int64_t flow, ns3::Time at, int node, ns3::Time duration);
    void Cancel(int64_t flow);

  private:
    void End(int64_t flow);

    std::deque<Done>& m_done;
    std::map<int64_t, ns3::EventId> m_ends;
};
} // namespace meshfl
