// How long light takes from one antenna to another.
#pragma once
#include "ns3/nstime.h"
#include "ns3/propagation-delay-model.h"

#include <unordered_map>
#include <vector>

namespace meshfl
{
// Constant speed, save that no two frames reach a receiver in the same phase of a microsecond.
//
// All parts of a frame last whole microseconds. ns-3 stops at a failed assertion when a frame
// begins in the very nanosecond in which a part of another one ends (phy-entity.cc, "IDLE"), which
// a busy cell meets sooner or later. A shift of a nanosecond, 30 cm, keeps them apart.
class DistinctDelay : public ns3::PropagationDelayModel
{
  public:
    static ns3::TypeId GetTypeId();

  private:
    ns3::Time GetDelay(ns3::Ptr<ns3::MobilityModel> from,
                       ns3::Ptr<ns3::MobilityModel> to) const override;
    int64_t DoAssignStreams(int64_t stream) override;

    // By receiver: when a frame last came in each phase.
    mutable std::unordered_map<const ns3::MobilityModel*, std::vector<int64_t>> m_lastInPhase;
};
} // namespace meshfl
