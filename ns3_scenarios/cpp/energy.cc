#include "energy.h"

#include "ns3/energy-source.h"
#include "ns3/simulator.h"
#include "ns3/wifi-phy.h"

using namespace ns3;

namespace meshfl
{
namespace
{
// At which the currents that ns-3 has for its radio are the watts of Halperin et al. (HotPower
// 2010): 1.14 to send, 0.94 to receive, 0.82 idle, 0.1 asleep.
constexpr double kVoltage = 3.0;
constexpr double kCapacityJ = 1e12;

// ns-3's sources look at their models every second, for ever. This one is never empty, so it need
// not look, and simulated time without traffic still costs nothing.
class Mains : public energy::EnergySource
{
  public:
    double GetSupplyVoltage() const override { return kVoltage; }
    double GetInitialEnergy() const override { return kCapacityJ; }
    double GetRemainingEnergy() override { return kCapacityJ; }
    double GetEnergyFraction() override { return 1; }
    void UpdateEnergySource() override {}
};

// ns-3's model of a radio, less its battery: at each change of state that one schedules the time
// at which the source would be empty and cancels the last such event, which then stays in the
// queue until its time. With a source that lasts, these fill the memory.
class Radio : public WifiRadioEnergyModel
{
  public:
    void SetEnergySource(Ptr<energy::EnergySource> source) override { m_source = source; }

    void ChangeState(int state) override
    {
        m_used = GetTotalEnergyConsumption();
        m_since = Simulator::Now();
        m_state = WifiPhyState(state);
    }

    double GetTotalEnergyConsumption() const override
    {
        double seconds = (Simulator::Now() - m_since).GetSeconds();
        return m_used + seconds * DoGetCurrentA() * m_source->GetSupplyVoltage();
    }

  private:
    double DoGetCurrentA() const override
    {
        switch (m_state)
        {
        case WifiPhyState::IDLE:
            return GetIdleCurrentA();
        case WifiPhyState::CCA_BUSY:
            return GetCcaBusyCurrentA();
        case WifiPhyState::TX:
            return GetTxCurrentA();
        case WifiPhyState::RX:
            return GetRxCurrentA();
        case WifiPhyState::SWITCHING:
            return GetSwitchingCurrentA();
        case WifiPhyState::SLEEP:
            return GetSleepCurrentA();
        case WifiPhyState::OFF:
            break;
        }
        return 0;
    }

    Ptr<energy::EnergySource> m_source;
    WifiPhyState m_state = WifiPhyState::IDLE;
    double m_used = 0;
    Time m_since;
};
} // namespace

void
Meters::Install(const Scene& scene)
{
    auto mains = CreateObject<Mains>();
    for (int node = 0; node < int(scene.Size()); node++)
    {
        const auto& spec = scene.Spec(node);
        if (spec.tier != 2)
        {
            continue;
        }
        auto& meter = m_meters[node];
        meter.radio = CreateObject<Radio>();
        meter.radio->SetEnergySource(mains);
        auto phy = scene.Wifi(node)->GetPhy();
        auto state = phy->IsStateSleep() ? WifiPhyState::SLEEP : WifiPhyState::IDLE;
        meter.radio->ChangeState(int(state));
        phy->RegisterListener(meter.radio->GetPhyListener());
        meter.processor = CreateObject<energy::SimpleDeviceEnergyModel>();
        meter.processor->SetEnergySource(mains);
        meter.idleA = spec.idleW / kVoltage;
        meter.busyA = spec.busyW / kVoltage;
        meter.processor->SetCurrentA(meter.idleA);
    }
}

void
Meters::SetBusy(int node, bool busy)
{
    auto found = m_meters.find(node);
    if (found != m_meters.end())
    {
        auto& meter = found->second;
        meter.processor->SetCurrentA(busy ? meter.busyA : meter.idleA);
    }
}

double
Meters::RadioJ(int node) const
{
    auto found = m_meters.find(node);
    return found == m_meters.end() ? 0 : found->second.radio->GetTotalEnergyConsumption();
}

double
Meters::ProcessorJ(int node) const
{
    auto found = m_meters.find(node);
    return found == m_meters.end() ? 0 : found->second.processor->GetTotalEnergyConsumption();
}
} // namespace meshfl
