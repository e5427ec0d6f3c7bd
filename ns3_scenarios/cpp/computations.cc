#include "computations.h"

#include "ns3/simulator.h"

#include <stdexcept>

using namespace ns3;

namespace meshfl
{
Computations::Computations(std::deque<Done>& done)
    : m_done(done)
{
}

void
Computations::Start(int64_t flow, Time at, int, Time duration)
{
    if (at < Simulator::Now())
    {
        throw std::invalid_argument("a computation cannot start in the past");
    }
    Time wait = at + duration - Simulator::Now();
    m_ends[flow] = Simulator::Schedule(wait, &Computations::End, this, flow);
}

void
Computations::Cancel(int64_t flow)
{
    m_ends.at(flow).Cancel();
    m_ends.erase(flow);
}

void
Computations::End(int64_t flow)
{
    m_ends.erase(flow);
    m_done.push_back({flow, Simulator::Now().GetNanoSeconds(), int(Status::kArrived)});
    Simulator::Stop();
}
} // namespace meshfl
