#include "computations.h"

#include "ns3/simulator.h"

#include <stdexcept>

using namespace ns3;

namespace meshfl
{
Computations::Computations(Meters& meters, std::deque<Done>& done)
    : m_meters(meters),
      m_done(done)
{
}

void
Computations::Start(int64_t flow, Time at, int node, Time duration)
{
    if (at < Simulator::Now())
    {
        throw std::invalid_argument("a computation cannot start in the past");
    }
    Time wait = at - Simulator::Now();
    m_live[flow] = {node, Simulator::Schedule(wait, &Meters::SetBusy, &m_meters, node, true),
                    Simulator::Schedule(wait + duration, &Computations::End, this, flow)};
}

void
Computations::Cancel(int64_t flow)
{
    auto& given = m_live.at(flow);
    // Out of the queue: a cancelled event would stay in it until its time.
    Simulator::Remove(given.begin);
    Simulator::Remove(given.end);
    m_meters.SetBusy(given.node, false);
    m_live.erase(flow);
}

void
Computations::End(int64_t flow)
{
    m_meters.SetBusy(m_live.at(flow).node, false);
    m_live.erase(flow);
    m_done.push_back({flow, Simulator::Now().GetNanoSeconds(), int(Status::kArrived)});
    Simulator::Stop();
}
} // namespace meshfl
