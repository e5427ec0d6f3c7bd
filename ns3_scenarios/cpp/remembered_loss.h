// The loss between two nodes that do not move, computed once.
#pragma once
#include "ns3/mobility-model.h"
#include "ns3/propagation-loss-model.h"

#include <unordered_map>

namespace meshfl
{
// Every frame asks for the loss to every station on its channel: an eighth of all the time.
class RememberedLoss : public ns3::PropagationLossModel
{
  public:
    explicit RememberedLoss(ns3::Ptr<ns3::PropagationLossModel> model)
        : m_model(model)
    {
    }

  private:
    using Place = ns3::Ptr<ns3::MobilityModel>;
    using Pair = std::pair<ns3::MobilityModel*, ns3::MobilityModel*>;

    struct Hash
    {
        size_t operator()(const Pair& pair) const
        {
            std::hash<ns3::MobilityModel*> hash;
            return 31 * hash(pair.first) + hash(pair.second);
        }
    };

    struct Power
    {
        double sent, received;
    };

    double DoCalcRxPower(double sent, Place from, Place to) const override
    {
        auto [known, isNew] = m_known.try_emplace({PeekPointer(from), PeekPointer(to)});
        if (isNew || known->second.sent != sent)
        {
            known->second = {sent, m_model->CalcRxPower(sent, from, to)};
        }
        return known->second.received;
    }

    int64_t DoAssignStreams(int64_t stream) override
    {
        return m_model->AssignStreams(stream);
    }

    ns3::Ptr<ns3::PropagationLossModel> m_model;
    mutable std::unordered_map<Pair, Power, Hash> m_known;
};
} // namespace meshfl
