#include "association.h"

#include "ns3/simulator.h"
#include "ns3/sta-wifi-mac.h"

#include <algorithm>

using namespace ns3;

namespace meshfl
{
namespace
{
const Time kAnswerWithin = MilliSeconds(50);
const Time kRetryAfter = MilliSeconds(50);
const Time kJitter = MilliSeconds(20);
} // namespace

NS_OBJECT_ENSURE_REGISTERED(OnDemandAssociation);

TypeId
OnDemandAssociation::GetTypeId()
{
    static TypeId tid = TypeId("meshfl::OnDemandAssociation")
                            .SetParent<WifiAssocManager>()
                            .AddConstructor<OnDemandAssociation>();
    return tid;
}

OnDemandAssociation::OnDemandAssociation()
    : m_jitter(CreateObject<UniformRandomVariable>())
{
}

void
OnDemandAssociation::SetStream(int64_t stream)
{
    m_jitter->SetStream(stream);
}

void
OnDemandAssociation::Want(bool wanted)
{
    m_wanted = wanted;
    if (!wanted)
    {
        if (m_retry.IsPending())
        {
            m_retry.Cancel();
            m_held = true;
        }
    }
    else if (m_held)
    {
        m_held = false;
        m_unanswered = 0;
        End(); // the scan that was held asks for the network of that time: start another
    }
}

void
OnDemandAssociation::DoStartScanning()
{
    if (!m_wanted)
    {
        m_held = true;
        return;
    }
    // Soon, for a probe may collide; at last twice a minute, for somebody may be out of range.
    int doublings = std::min(m_unanswered - 1, 9);
    ProbeAfter(m_unanswered ? kRetryAfter * (1 << doublings) : Time(0));
}

// Stations that wake together would else probe, and collide, together for ever.
void
OnDemandAssociation::ProbeAfter(Time wait)
{
    m_retry.Cancel();
    Time jitter = Seconds(m_jitter->GetValue(0, kJitter.GetSeconds()));
    m_retry = Simulator::Schedule(wait + jitter, &OnDemandAssociation::Probe, this);
}

void
OnDemandAssociation::Probe()
{
    m_unanswered++;
    m_timeout.Cancel();
    m_timeout = Simulator::Schedule(kAnswerWithin, &OnDemandAssociation::End, this);
    m_mac->EnqueueProbeRequest(m_mac->GetProbeRequest(0), 0);
}

void
OnDemandAssociation::NotifyApInfo(const StaWifiMac::ApInfo&& info)
{
    WifiAssocManager::NotifyApInfo(std::move(info));
    if (m_timeout.IsPending() && !GetSortedList().empty())
    {
        m_unanswered = 0;
        m_timeout.Cancel();
        m_timeout = Simulator::ScheduleNow(&OnDemandAssociation::End, this);
    }
}

void
OnDemandAssociation::End()
{
    ScanningTimeout();
}

void
OnDemandAssociation::NotifyChannelSwitched(uint8_t)
{
}

bool
OnDemandAssociation::Compare(const StaWifiMac::ApInfo& a, const StaWifiMac::ApInfo& b) const
{
    return a.m_snr > b.m_snr;
}

bool
OnDemandAssociation::CanBeInserted(const StaWifiMac::ApInfo&) const
{
    return m_timeout.IsPending();
}

bool
OnDemandAssociation::CanBeReturned(const StaWifiMac::ApInfo&) const
{
    return true;
}

void
OnDemandAssociation::DoDispose()
{
    m_timeout.Cancel();
    m_retry.Cancel();
    WifiAssocManager::DoDispose();
}
} // namespace meshfl
