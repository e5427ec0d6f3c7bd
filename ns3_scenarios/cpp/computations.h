// Computations: a device is busy for a time, and its end is an event of ns-3's own queue.
#pragma once
#include "energy.h"
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
    Computations(Meters& meters, std::deque<Done>& done);
    void Start(int64_t flow, ns3::Time at, int node, ns3::Time duration);
    void Cancel(int64_t flow);

  private:
    struct Computation
    {
        int node;
        ns3::EventId begin, end;
    };

    void End(int64_t flow);

    Meters& m_meters;
    std::deque<Done>& m_done;
    std::map<int64_t, Computation> m_live;
};
} // namespace meshfl
