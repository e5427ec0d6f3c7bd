#include "scene.h"

#include "reception.h"
#include "remembered_loss.h"

#include "ns3/ap-wifi-mac.h"
#include "ns3/arp-cache.h"
#include "ns3/boolean.h"
#include "ns3/buildings-helper.h"
#include "ns3/constant-position-mobility-model.h"
#include "ns3/csma-helper.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/hybrid-buildings-propagation-loss-model.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-routing-table-entry.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/itu-r-1411-los-propagation-loss-model.h"
#include "ns3/node-container.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/propagation-delay-model.h"
#include "ns3/simulator.h"
#include "ns3/ssid.h"
#include "ns3/sta-wifi-mac.h"
#include "ns3/string.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"
#include "ns3/wifi-mac-queue.h"
#include "ns3/yans-wifi-channel.h"

#include <cmath>
#include <stdexcept>

using namespace ns3;

namespace meshfl
{
namespace
{
constexpr double kSpeedOfLight = 299'792'458;
constexpr int64_t kLossStream = 1000, kWifiStream = 5000, kStackStream = 2'000'000,
                  kProbeStream = 4'000'000;
// An answer to what was received last may be due: ns-3 asserts that it can be sent.
const Time kBeforeTuning = MilliSeconds(1);
const Time kDozeAfter = MilliSeconds(100);
// The access point takes frames for a station once its answer has been acknowledged.
const Time kAcknowledged = MilliSeconds(1);
const Time kDozeRetry = MilliSeconds(20);
const Ipv4Mask kHost("255.255.255.255");

WifiStandard
Standard(const std::string& name)
{
    static const std::map<std::string, WifiStandard> standards = {
        {"b", WIFI_STANDARD_80211b},
        {"g", WIFI_STANDARD_80211g},
        {"n", WIFI_STANDARD_80211n},
        {"ac", WIFI_STANDARD_80211ac},
        {"ax", WIFI_STANDARD_80211ax},
    };
    return standards.at(name);
}

bool
HasHighThroughput(const Options& options)
{
    return options.standard != "b" && options.standard != "g";
}

YansWifiPhyHelper
MakePhyHelper(Ptr<PropagationLossModel> loss, double sensitivityDbm)
{
    auto channel = CreateObject<YansWifiChannel>();
    channel->SetPropagationLossModel(loss);
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    YansWifiPhyHelper phy;
    phy.SetChannel(channel);
    phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel", "MinimumRssi",
                                  DoubleValue(sensitivityDbm));
    phy.Set("CcaSensitivity", DoubleValue(sensitivityDbm));
    return phy;
}

void
SetRateManager(WifiHelper& wifi, const Options& options)
{
    const auto& manager = options.rateManager;
    if (manager == "ideal")
    {
        wifi.SetRemoteStationManager("ns3::IdealWifiManager");
    }
    else if (manager == "minstrel")
    {
        wifi.SetRemoteStationManager(HasHighThroughput(options) ? "ns3::MinstrelHtWifiManager"
                                                                : "ns3::MinstrelWifiManager");
    }
    else
    {
        auto mode = StringValue(manager.substr(manager.find(':') + 1));
        // ns-3's default exists at 5 GHz only.
        auto control = StringValue(options.standard == "b"  ? "DsssRate1Mbps"
                                   : options.bandGhz < 3 ? "ErpOfdmRate6Mbps"
                                                         : "OfdmRate6Mbps");
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", mode,
                                     "ControlMode", control);
    }
}

Ipv4Address
HostAddress(uint32_t network, uint32_t host)
{
    return Ipv4Address((10u << 24) | (network << 20) | host);
}

// A random variable of its own for each pair: ns-3's log-normal shadowing would draw per packet.
class PairShadowing : public PropagationLossModel
{
  public:
    explicit PairShadowing(double sigma)
        : m_sigma(sigma),
          m_normal(CreateObject<NormalRandomVariable>())
    {
    }

  private:
    double DoCalcRxPower(double power, Ptr<MobilityModel> a, Ptr<MobilityModel> b) const override
    {
        auto pair = std::minmax(a->GetObject<Node>()->GetId(), b->GetObject<Node>()->GetId());
        auto [entry, isNew] = m_shadow.try_emplace(pair, 0.0);
        if (isNew)
        {
            entry->second = m_sigma * m_normal->GetValue(0, 1);
        }
        return power - entry->second;
    }

    int64_t DoAssignStreams(int64_t stream) override
    {
        m_normal->SetStream(stream);
        return 1;
    }

    double m_sigma;
    Ptr<NormalRandomVariable> m_normal;
    mutable std::map<std::pair<uint32_t, uint32_t>, double> m_shadow;
};
} // namespace

Scene::Scene(const Options& options)
    : m_options(options)
{
}

int
Scene::AddNode(const NodeSpec& spec)
{
    auto node = CreateObject<ns3::Node>();
    auto place = CreateObject<ConstantPositionMobilityModel>();
    place->SetPosition(Vector(spec.x, spec.y, spec.z));
    node->AggregateObject(place);
    BuildingsHelper::Install(node);
    m_nodes.push_back(node);
    m_specs.push_back(spec);
    int number = int(m_nodes.size()) - 1;
    if (spec.tier == 0)
    {
        m_cloud = number;
    }
    return number;
}

void
Scene::AddBackhaul(const BackhaulSpec& spec)
{
    m_backhaul.push_back(spec);
}

void
Scene::Build(const std::vector<int>& gatewayOfNode)
{
    m_gatewayOf = gatewayOfNode;
    MakeLossModel();
    InstallWifi();
    InstallStack();
    for (uint32_t i = 0; i < m_backhaul.size(); i++)
    {
        InstallBackhaul(m_backhaul[i], i);
    }
    for (auto& [device, station] : m_stations)
    {
        RouteTo(device);
        m_wifi[device]->GetPhy()->SetSleepMode(false);
    }
}

void
Scene::MakeLossModel()
{
    double frequency = m_options.bandGhz < 3 ? 2.4e9 : 5.2e9;
    if (m_options.loss == "hybrid-buildings")
    {
        m_loss = CreateObject<HybridBuildingsPropagationLossModel>();
        m_loss->SetAttribute("Frequency", DoubleValue(frequency));
        m_loss->SetAttribute("CitySize", EnumValue(LargeCity));
        m_loss->SetAttribute("Environment", EnumValue(UrbanEnvironment));
        for (auto name : {"ShadowSigmaOutdoor", "ShadowSigmaIndoor", "ShadowSigmaExtWalls"})
        {
            m_loss->SetAttribute(name, DoubleValue(m_options.shadowingSigmaDb));
        }
    }
    else if (m_options.loss == "itu-r-1411")
    {
        m_loss = CreateObject<ItuR1411LosPropagationLossModel>();
        m_loss->SetAttribute("Frequency", DoubleValue(frequency));
    }
    else if (m_options.loss == "log-distance")
    {
        m_loss = CreateObject<LogDistancePropagationLossModel>();
        m_loss->SetAttribute("Exponent", DoubleValue(m_options.lossExponent));
        double atOneMetre = 20 * std::log10(4 * M_PI * frequency / kSpeedOfLight);
        m_loss->SetAttribute("ReferenceLoss", DoubleValue(atOneMetre));
    }
    else
    {
        m_loss = CreateObject<FixedRssLossModel>();
        m_loss->SetAttribute("Rss", DoubleValue(m_options.fixedRssDbm));
    }
    if (m_options.shadowingSigmaDb > 0 && m_options.loss != "hybrid-buildings")
    {
        m_loss->SetNext(Create<PairShadowing>(m_options.shadowingSigmaDb));
    }
    m_loss = Create<RememberedLoss>(m_loss);
    m_loss->AssignStreams(kLossStream);
}

std::string
Scene::Channel(int gateway) const
{
    int width = m_options.standard == "b"   ? 22
                : m_options.standard == "g" ? 20
                                            : m_options.widthMhz;
    return "{" + std::to_string(m_specs.at(gateway).channel) + ", " + std::to_string(width) +
           (m_options.bandGhz < 3 ? ", BAND_2_4GHZ, 0}" : ", BAND_5GHZ, 0}");
}

void
Scene::InstallWifi()
{
    auto phy = MakePhyHelper(m_loss, m_options.sensitivityDbm);
    WifiHelper wifi;
    wifi.SetStandard(Standard(m_options.standard));
    SetRateManager(wifi, m_options);
    int64_t stream = kWifiStream;
    for (int node = 0; node < int(m_nodes.size()); node++)
    {
        if (m_specs[node].tier == 0)
        {
            continue;
        }
        auto installed = InstallRadio(node, wifi, phy);
        stream += WifiHelper::AssignStreams(installed, stream);
        m_wifi[node] = DynamicCast<WifiNetDevice>(installed.Get(0));
        if (HasHighThroughput(m_options))
        {
            m_wifi[node]->GetMac()->SetAttribute("BE_MaxAmsduSize",
                                                 UintegerValue(m_options.amsduBytes));
        }
        AllowForCoincidence(m_wifi[node]->GetPhy());
        if (IsDevice(node))
        {
            AssociateOnDemand(node);
        }
    }
}

NetDeviceContainer
Scene::InstallRadio(int node, const WifiHelper& wifi, YansWifiPhyHelper& phy) const
{
    const auto& spec = m_specs.at(node);
    int gateway = IsDevice(node) ? m_gatewayOf.at(node) : node;
    phy.Set("ChannelSettings", StringValue(Channel(gateway)));
    phy.Set("TxPowerStart", DoubleValue(spec.txPowerDbm));
    phy.Set("TxPowerEnd", DoubleValue(spec.txPowerDbm));
    phy.Set("TxGain", DoubleValue(spec.gainDbi));
    phy.Set("RxGain", DoubleValue(spec.gainDbi));
    WifiMacHelper mac;
    auto ssid = SsidValue(Ssid("gw" + std::to_string(gateway)));
    if (IsDevice(node))
    {
        // No beacons are sent, so none can be missed.
        mac.SetType("ns3::StaWifiMac", "Ssid", ssid, "ActiveProbing", BooleanValue(true),
                    "MaxMissedBeacons", UintegerValue(1'000'000'000));
    }
    else
    {
        mac.SetType("ns3::ApWifiMac", "Ssid", ssid, "BeaconGeneration", BooleanValue(false));
    }
    return wifi.Install(phy, mac, NodeContainer(m_nodes.at(node)));
}

void
Scene::AssociateOnDemand(int device)
{
    auto mac = DynamicCast<StaWifiMac>(m_wifi.at(device)->GetMac());
    auto& association = m_stations[device].association;
    association = CreateObject<OnDemandAssociation>();
    association->SetStream(kProbeStream + device);
    mac->SetAssocManager(association);
    mac->TraceConnectWithoutContext(
        "Assoc", Callback<void, Mac48Address>([this, device](Mac48Address) {
            Simulator::Schedule(kAcknowledged, &Scene::Ready, this, device);
        }));
}

void
Scene::AllowForDistance(int node)
{
    auto phy = m_wifi.at(node)->GetPhy();
    double base = m_options.standard == "b" ? 20e-6 : 9e-6;
    phy->SetSlot(Seconds(base + 2 * m_options.longestLinkM / kSpeedOfLight));
}

uint32_t
Scene::AddInterface(int node, Ptr<NetDevice> device, Ipv4Address address)
{
    auto ip = m_nodes.at(node)->GetObject<Ipv4>();
    uint32_t interface = ip->AddInterface(device);
    ip->AddAddress(interface, Ipv4InterfaceAddress(address, kHost));
    ip->SetUp(interface);
    return interface;
}

void
Scene::InstallStack()
{
    InternetStackHelper stack;
    stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
    stack.SetIpv6StackInstall(false);
    NodeContainer all;
    for (auto& node : m_nodes)
    {
        stack.Install(node);
        all.Add(node);
    }
    stack.AssignStreams(all, kStackStream);
    for (auto& [node, device] : m_wifi)
    {
        m_wifiAddress[node] = HostAddress(1, node + 1);
        m_wifiInterface[node] = AddInterface(node, device, m_wifiAddress[node]);
        if (m_options.queue == "fq-codel")
        {
            TrafficControlHelper queues;
            queues.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
            queues.Install(device);
        }
    }
}

namespace
{
void
RemoveRoutes(Ptr<ns3::Node> node, std::function<bool(const Ipv4RoutingTableEntry&)> which)
{
    Ipv4StaticRoutingHelper helper;
    auto routing = helper.GetStaticRouting(node->GetObject<Ipv4>());
    for (int i = int(routing->GetNRoutes()) - 1; i >= 0; i--)
    {
        if (which(routing->GetRoute(i)))
        {
            routing->RemoveRoute(i);
        }
    }
}

void
PinEntry(Ptr<ns3::Node> node, uint32_t interface, Ipv4Address address, Address hardware)
{
    auto cache = node->GetObject<Ipv4L3Protocol>()->GetInterface(interface)->GetArpCache();
    auto entry = cache->Lookup(address);
    entry = entry ? entry : cache->Add(address);
    entry->SetMacAddress(hardware);
    entry->MarkPermanent();
}
} // namespace

void
Scene::InstallBackhaul(const BackhaulSpec& spec, uint32_t number)
{
    int gateway = spec.a == m_cloud ? spec.b : spec.a;
    NodeContainer ends(m_nodes.at(m_cloud), m_nodes.at(gateway));
    NetDeviceContainer devices;
    auto rate = DataRateValue(DataRate(uint64_t(spec.rateBps)));
    auto latency = TimeValue(Seconds(spec.latencyS));
    if (spec.kind == "csma")
    {
        CsmaHelper csma;
        csma.SetChannelAttribute("DataRate", rate);
        csma.SetChannelAttribute("Delay", latency);
        csma.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("10000p"));
        devices = csma.Install(ends);
    }
    else
    {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", rate);
        wire.SetChannelAttribute("Delay", latency);
        wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("10000p"));
        devices = wire.Install(ends);
    }
    m_cloudEnd[gateway] = HostAddress(2, 2 * number + 1);
    m_gatewayEnd[gateway] = HostAddress(2, 2 * number + 2);
    m_cloudInterface[gateway] = AddInterface(m_cloud, devices.Get(0), m_cloudEnd[gateway]);
    uint32_t up = AddInterface(gateway, devices.Get(1), m_gatewayEnd[gateway]);
    if (spec.kind == "csma")
    {
        PinEntry(m_nodes.at(m_cloud), m_cloudInterface[gateway], m_gatewayEnd[gateway],
                 devices.Get(1)->GetAddress());
        PinEntry(m_nodes.at(gateway), up, m_cloudEnd[gateway], devices.Get(0)->GetAddress());
    }
    Ipv4StaticRoutingHelper routing;
    auto atGateway = routing.GetStaticRouting(m_nodes.at(gateway)->GetObject<Ipv4>());
    auto atCloud = routing.GetStaticRouting(m_nodes.at(m_cloud)->GetObject<Ipv4>());
    atGateway->AddHostRouteTo(m_cloudEnd[gateway], up);
    atGateway->SetDefaultRoute(m_cloudEnd[gateway], up);
    atCloud->AddHostRouteTo(m_gatewayEnd[gateway], m_cloudInterface[gateway]);
    atCloud->AddHostRouteTo(m_wifiAddress.at(gateway), m_gatewayEnd[gateway],
                            m_cloudInterface[gateway]);
}

void
Scene::RouteTo(int device)
{
    int gateway = m_gatewayOf.at(device);
    Ipv4StaticRoutingHelper routing;
    auto address = m_wifiAddress.at(device);
    routing.GetStaticRouting(m_nodes[device]->GetObject<Ipv4>())
        ->SetDefaultRoute(m_wifiAddress.at(gateway), m_wifiInterface.at(device));
    routing.GetStaticRouting(m_nodes[gateway]->GetObject<Ipv4>())
        ->AddHostRouteTo(address, m_wifiInterface.at(gateway));
    if (m_cloudInterface.count(gateway))
    {
        routing.GetStaticRouting(m_nodes[m_cloud]->GetObject<Ipv4>())
            ->AddHostRouteTo(address, m_gatewayEnd.at(gateway), m_cloudInterface.at(gateway));
    }
}

void
Scene::Unroute(int device)
{
    auto address = m_wifiAddress.at(device);
    auto toDevice = [address](const Ipv4RoutingTableEntry& route) {
        return route.IsHost() && route.GetDest() == address;
    };
    RemoveRoutes(m_nodes[device], [](const auto& route) { return route.IsDefault(); });
    RemoveRoutes(m_nodes[m_gatewayOf.at(device)], toDevice);
    RemoveRoutes(m_nodes[m_cloud], toDevice);
}

// (Re)association is a link change and flushes the ARP cache, permanent entries too.
void
Scene::PinArp(int device)
{
    int gateway = m_gatewayOf.at(device);
    PinEntry(m_nodes[device], m_wifiInterface.at(device), m_wifiAddress.at(gateway),
             m_wifi.at(gateway)->GetAddress());
    PinEntry(m_nodes[gateway], m_wifiInterface.at(gateway), m_wifiAddress.at(device),
             m_wifi.at(device)->GetAddress());
}

Ipv4Address
Scene::Address(int node, int peer) const
{
    if (m_specs.at(node).tier == 0)
    {
        int gateway = IsDevice(peer) ? m_gatewayOf.at(peer) : peer;
        return m_cloudEnd.at(gateway);
    }
    bool wired = m_specs.at(node).tier == 1 && !IsDevice(peer);
    return wired ? m_gatewayEnd.at(node) : m_wifiAddress.at(node);
}

void
Scene::Associate(int device, int gateway)
{
    if (m_gatewayOf.at(device) == gateway)
    {
        return;
    }
    Unroute(device);
    m_gatewayOf.at(device) = gateway;
    RouteTo(device);
    auto& station = m_stations.at(device);
    station.tuning.Cancel();
    if (m_wifi.at(device)->GetPhy()->IsStateSleep())
    {
        Tune(device);
    }
    else
    {
        station.tuning = Simulator::Schedule(kBeforeTuning, &Scene::Tune, this, device);
    }
    if (station.users == 0)
    {
        station.doze.Cancel();
        station.doze = Simulator::Schedule(kDozeAfter, &Scene::MaybeSleep, this, device);
    }
}

// To the channel and the network of its gateway.
void
Scene::Tune(int device)
{
    auto wifi = m_wifi.at(device);
    int gateway = m_gatewayOf.at(device);
    if (wifi->GetPhy()->IsStateTx())
    {
        m_stations.at(device).tuning =
            Simulator::Schedule(kBeforeTuning, &Scene::Tune, this, device);
        return;
    }
    if (wifi->GetPhy()->IsStateSleep()) // it would ignore a change of channel
    {
        wifi->GetPhy()->ResumeFromSleep();
    }
    wifi->GetMac()->SetSsid(Ssid("gw" + std::to_string(gateway)));
    wifi->GetPhy()->SetAttribute("ChannelSettings", StringValue(Channel(gateway)));
    if (!m_stations.at(device).waiting.empty())
    {
        WantAssociation(device);
    }
}

void
Scene::WantAssociation(int device)
{
    if (IsAssociated(device))
    {
        Ready(device);
        return;
    }
    AllowForDistance(device);
    AllowForDistance(m_gatewayOf.at(device));
    m_stations.at(device).association->Want(true);
}

bool
Scene::IsAssociated(int device) const
{
    auto mac = DynamicCast<StaWifiMac>(m_wifi.at(device)->GetMac());
    auto access = m_wifi.at(m_gatewayOf.at(device))->GetMac()->GetAddress();
    return mac->IsAssociated() && mac->GetBssid(0) == access;
}

void
Scene::Use(int node, std::function<void()> whenReady)
{
    if (!IsDevice(node))
    {
        whenReady();
        return;
    }
    auto& station = m_stations.at(node);
    station.users++;
    station.doze.Cancel();
    auto phy = m_wifi.at(node)->GetPhy();
    if (phy->IsStateSleep())
    {
        phy->ResumeFromSleep();
    }
    station.waiting.push_back(whenReady);
    if (!station.tuning.IsPending())
    {
        WantAssociation(node);
    }
}

void
Scene::Ready(int device)
{
    if (!IsAssociated(device)) // gone again, to another access point
    {
        return;
    }
    auto& station = m_stations.at(device);
    station.association->Want(false);
    AllowForDistance(device);
    AllowForDistance(m_gatewayOf.at(device));
    PinArp(device);
    auto waiting = std::move(station.waiting);
    station.waiting.clear();
    for (auto& go : waiting)
    {
        go();
    }
}

void
Scene::Release(int node)
{
    if (!IsDevice(node))
    {
        return;
    }
    auto& station = m_stations.at(node);
    if (--station.users == 0)
    {
        station.association->Want(false);
        station.waiting.clear();
        station.doze.Cancel();
        station.doze = Simulator::Schedule(kDozeAfter, &Scene::MaybeSleep, this, node);
    }
}

namespace
{
// Whether a packet to that address is in the fair queues before `from`. Each holds one flow.
bool
WaitsFor(const Address& to, Ptr<WifiNetDevice> from)
{
    auto control = from->GetNode()->GetObject<TrafficControlLayer>();
    auto root = control->GetRootQueueDiscOnDevice(from);
    for (size_t i = 0; root && i < root->GetNQueueDiscClasses(); i++)
    {
        auto first = root->GetQueueDiscClass(i)->GetQueueDisc()->GetInternalQueue(0)->Peek();
        if (first && first->GetAddress() == to)
        {
            return true;
        }
    }
    return false;
}
} // namespace

bool
Scene::IsDrained(int device) const
{
    auto own = m_wifi.at(device)->GetMac();
    auto access = m_wifi.at(m_gatewayOf.at(device))->GetMac();
    bool high = own->GetQosSupported();
    auto queueOf = [high](Ptr<WifiMac> mac) {
        return high ? mac->GetTxopQueue(AC_BE) : mac->GetTxopQueue(AC_BE_NQOS);
    };
    auto type = high ? WIFI_QOSDATA_QUEUE : WIFI_DATA_QUEUE;
    auto tid = high ? std::optional<uint8_t>(0) : std::nullopt;
    WifiContainerQueueId toDevice{type, WIFI_UNICAST, own->GetAddress(), tid};
    return queueOf(own)->GetNPackets() == 0 && queueOf(access)->GetNPackets(toDevice) == 0 &&
           !WaitsFor(access->GetAddress(), m_wifi.at(device)) &&
           !WaitsFor(own->GetAddress(), m_wifi.at(m_gatewayOf.at(device)));
}

// Only when nothing is queued either way, else what is queued times out.
void
Scene::MaybeSleep(int device)
{
    auto& station = m_stations.at(device);
    auto phy = m_wifi.at(device)->GetPhy();
    if (station.users > 0 || phy->IsStateSleep())
    {
        return;
    }
    if (phy->IsStateIdle() && IsDrained(device))
    {
        phy->SetSleepMode(false);
        return;
    }
    station.doze = Simulator::Schedule(kDozeRetry, &Scene::MaybeSleep, this, device);
}

int
Scene::Awake() const
{
    int awake = 0;
    for (const auto& [device, station] : m_stations)
    {
        awake += !m_wifi.at(device)->GetPhy()->IsStateSleep();
    }
    return awake;
}

double
Scene::ReceivedPowerDbm(int from, int to) const
{
    auto a = m_nodes.at(from)->GetObject<MobilityModel>();
    auto b = m_nodes.at(to)->GetObject<MobilityModel>();
    double sent = m_specs.at(from).txPowerDbm + m_specs.at(from).gainDbi;
    return m_loss->CalcRxPower(sent, a, b) + m_specs.at(to).gainDbi;
}
} // namespace meshfl
