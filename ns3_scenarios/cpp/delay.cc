#include "delay.h"

#include "ns3/mobility-model.h"
#include "ns3/simulator.h"

using namespace ns3;

namespace meshfl
{
namespace
{
constexpr double kSpeedOfLight = 299'792'458;
constexpr int64_t kPhases = 1000;                  // nanoseconds in a microsecond
constexpr int64_t kLongestFrame = 20 * 1'000'000; // longer than any frame lasts
} // namespace

NS_OBJECT_ENSURE_REGISTERED(DistinctDelay);

TypeId
DistinctDelay::GetTypeId()
{
    static TypeId tid = TypeId("meshfl::DistinctDelay")
                            .SetParent<PropagationDelayModel>()
                            .AddConstructor<DistinctDelay>();
    return tid;
}

Time
DistinctDelay::GetDelay(Ptr<MobilityModel> from, Ptr<MobilityModel> to) const
{
    int64_t now = Simulator::Now().GetNanoSeconds();
    int64_t arrival = now + Seconds(from->GetDistanceFrom(to) / kSpeedOfLight).GetNanoSeconds();
    auto [entry, isNew] = m_lastInPhase.try_emplace(PeekPointer(to));
    auto& last = entry->second;
    if (isNew)
    {
        last.assign(kPhases, -kLongestFrame);
    }
    while (last[arrival % kPhases] + kLongestFrame > arrival)
    {
        arrival++;
    }
    last[arrival % kPhases] = arrival;
    return NanoSeconds(arrival - now);
}

int64_t
DistinctDelay::DoAssignStreams(int64_t)
{
    return 0;
}
} // namespace meshfl
