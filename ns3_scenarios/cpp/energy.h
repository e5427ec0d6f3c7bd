// What the radios and processors of devices use, in ns-3's energy framework.
#pragma once
#include "scene.h"

#include "ns3/simple-device-energy-model.h"
#include "ns3/wifi-radio-energy-model.h"

#include <map>

namespace meshfl
{
class Meters
{
  public:
    void Install(const Scene& scene); // on all devices; without it every reading is 0
    void SetBusy(int node, bool busy);
    // Since the start; 0 for a node that is no device.
    double RadioJ(int node) const;
    double ProcessorJ(int node) const;

  private:
    struct Meter
    {
        ns3::Ptr<ns3::WifiRadioEnergyModel> radio;
        ns3::Ptr<ns3::energy::SimpleDeviceEnergyModel> processor;
        double idleA, busyA;
    };

    std::map<int, Meter> m_meters;
};
} // namespace meshfl
