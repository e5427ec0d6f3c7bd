#include "reception.h"

#include "ns3/abort.h"
#include "ns3/wifi-ppdu.h"

using namespace ns3;

namespace meshfl
{
namespace
{
struct Receiver : public WifiPhy
{
    static void Arrives(WifiPhy* phy, Ptr<const WifiPpdu> ppdu, double, Time)
    {
        if (phy->IsStateIdle() && phy->*(&Receiver::m_currentEvent))
        {
            (phy->*(&Receiver::NotifyCcaBusy))(ppdu, NanoSeconds(1));
        }
    }
};
} // namespace

void
AllowForCoincidence(Ptr<WifiPhy> phy)
{
    auto arrives = MakeBoundCallback(&Receiver::Arrives, PeekPointer(phy));
    bool known = phy->TraceConnectWithoutContext("SignalArrival", arrives);
    NS_ABORT_MSG_UNLESS(known, "this ns-3 does not tell of signals that arrive");
}
} // namespace meshfl
