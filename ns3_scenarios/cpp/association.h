// Stations that look for their access point only while somebody waits for them.
#pragma once
#include "ns3/event-id.h"
#include "ns3/nstime.h"
#include "ns3/random-variable-stream.h"
#include "ns3/wifi-assoc-manager.h"

namespace meshfl
{
// ns-3's own manager scans for ever while no access point answers, some twenty times a second of
// simulated time. This one holds the scan until it is wanted, and needs no beacons.
class OnDemandAssociation : public ns3::WifiAssocManager
{
  public:
    static ns3::TypeId GetTypeId();
    OnDemandAssociation();
    void Want(bool wanted);
    void SetStream(int64_t stream);
    void NotifyApInfo(const ns3::StaWifiMac::ApInfo&& info) override;
    void NotifyChannelSwitched(uint8_t link) override;
    bool Compare(const ns3::StaWifiMac::ApInfo& a, const ns3::StaWifiMac::ApInfo& b) const override;

  protected:
    void DoDispose() override;
    bool CanBeInserted(const ns3::StaWifiMac::ApInfo& info) const override;
    bool CanBeReturned(const ns3::StaWifiMac::ApInfo& info) const override;

  private:
    void DoStartScanning() override;
    void ProbeAfter(ns3::Time wait);
    void Probe();
    void End();

    bool m_wanted = false;
    bool m_held = false;
    int m_unanswered = 0; // probes in a row
    ns3::EventId m_timeout;
    ns3::EventId m_retry;
    ns3::Ptr<ns3::UniformRandomVariable> m_jitter;
};
} // namespace meshfl
