#include "background.h"

#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/inet-socket-address.h"
#include "ns3/onoff-application.h"
#include "ns3/packet-sink.h"
#include "ns3/pointer.h"
#include "ns3/random-variable-stream.h"
#include "ns3/simulator.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <cmath>

using namespace ns3;

namespace meshfl
{
namespace
{
constexpr double kDistanceM = 50;
constexpr uint16_t kPort = 9;
constexpr int64_t kStream = 6'000'000;
constexpr int64_t kStreamsANode = 2;

Ptr<RandomVariableStream>
Exponential(double mean)
{
    auto variable = CreateObject<ExponentialRandomVariable>();
    variable->SetAttribute("Mean", DoubleValue(mean));
    return variable;
}
} // namespace

Background::Background(const Options& options, Scene& scene)
    : m_options(options),
      m_scene(scene)
{
}

void
Background::AddNeighbours(std::vector<int>& gatewayOfNode)
{
    int nodes = int(m_scene.Size());
    for (int gateway = 0; gateway < nodes; gateway++)
    {
        NodeSpec spec = m_scene.Spec(gateway);
        if (spec.tier != 1)
        {
            continue;
        }
        spec.tier = 2;
        spec.x += kDistanceM;
        m_neighbours.push_back({m_scene.AddNode(spec), gateway});
        gatewayOfNode.push_back(gateway);
    }
}

void
Background::Start()
{
    for (const auto& neighbour : m_neighbours)
    {
        Simulator::ScheduleNow([this, neighbour] {
            m_scene.Use(neighbour.node, [this, neighbour] { Talk(neighbour); });
        });
    }
}

void
Background::Talk(const Neighbour& neighbour)
{
    Connect(neighbour.gateway, neighbour.node, m_options.backgroundDownBps);
    Connect(neighbour.node, neighbour.gateway, m_options.backgroundUpBps);
}

void
Background::Connect(int from, int to, double rateBps)
{
    if (rateBps == 0)
    {
        return;
    }
    auto udp = TypeIdValue(UdpSocketFactory::GetTypeId());
    auto sink = CreateObject<PacketSink>();
    sink->SetAttribute("Protocol", udp);
    sink->SetAttribute("Local", AddressValue(InetSocketAddress(Ipv4Address::GetAny(), kPort)));
    m_scene.Node(to)->AddApplication(sink);
    auto source = CreateObject<OnOffApplication>();
    source->SetAttribute("Protocol", udp);
    source->SetAttribute("Remote",
                         AddressValue(InetSocketAddress(m_scene.Address(to, from), kPort)));
    source->SetAttribute("DataRate", DataRateValue(DataRate(uint64_t(std::ceil(rateBps)))));
    source->SetAttribute("PacketSize", UintegerValue(m_options.backgroundPacketBytes));
    source->SetAttribute("OnTime", PointerValue(Exponential(m_options.backgroundOnS)));
    source->SetAttribute("OffTime", PointerValue(Exponential(m_options.backgroundOffS)));
    source->AssignStreams(kStream + kStreamsANode * from);
    m_scene.Node(from)->AddApplication(source);
}
} // namespace meshfl
