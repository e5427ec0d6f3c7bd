#include "net.h"

#include "background.h"
#include "computations.h"
#include "energy.h"
#include "scene.h"
#include "transfers.h"

#include "ns3/building.h"
#include "ns3/config.h"
#include "ns3/mac48-address.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

using namespace ns3;

namespace meshfl
{
struct Net::Impl
{
    explicit Impl(const Options& options)
        : options(options),
          scene(options),
          background(options, scene),
          transfers(options, scene, meters),
          computations(meters, transfers.done)
    {
    }

    Options options;
    Scene scene;
    Background background;
    Meters meters;
    Transfers transfers;
    Computations computations;
};

namespace
{
constexpr uint32_t kSocketBuffer = 4'000'000;

void
SetDefaults(const Options& options)
{
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(options.seed);
    RngSeedManager::ResetNextStreamIndex();
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(options.segmentBytes));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(kSocketBuffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(kSocketBuffer));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(options.delayedAcks));
    // As Linux has them; the standards' are five times as long, and every loss shows.
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::ArpCache::PendingQueueSize", UintegerValue(1000));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(options.macQueueDelayS)));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                       StringValue(std::to_string(options.macQueuePackets) + "p"));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold",
                       UintegerValue(options.rtsBytes));
}
} // namespace

Net::Net(const Options& options)
{
    SetDefaults(options);
    m = std::make_unique<Impl>(options);
}

// What ns-3 keeps outside of its simulator is put back too, so that a rebuilt scene is the same.
Net::~Net()
{
    m->transfers.Clear();
    Simulator::Destroy();
    m.reset();
    Config::Reset();
    Mac48Address::ResetAllocationIndex();
}

int
Net::AddNode(const NodeSpec& spec)
{
    return m->scene.AddNode(spec);
}

void
Net::AddBackhaul(const BackhaulSpec& spec)
{
    m->scene.AddBackhaul(spec);
}

void
Net::AddBuilding(double xMin, double xMax, double yMin, double yMax, double height)
{
    CreateObject<Building>()->SetBoundaries(Box(xMin, xMax, yMin, yMax, 0, height));
}

void
Net::Build(std::vector<int> gatewayOfNode)
{
    if (m->options.backgroundDownBps > 0 || m->options.backgroundUpBps > 0)
    {
        m->background.AddNeighbours(gatewayOfNode);
    }
    m->scene.Build(gatewayOfNode);
    m->background.Start();
    if (m->options.energy)
    {
        m->meters.Install(m->scene);
    }
}

void
Net::Associate(int device, int gateway)
{
    m->scene.Associate(device, gateway);
}

void
Net::Start(int64_t flow, int64_t atNs, int src, int dst, uint64_t bytes, int64_t deadlineNs)
{
    m->transfers.Start(flow, NanoSeconds(atNs), src, dst, bytes, NanoSeconds(deadlineNs));
}

void
Net::Compute(int64_t flow, int64_t atNs, int node, int64_t durationNs)
{
    m->computations.Start(flow, NanoSeconds(atNs), node, NanoSeconds(durationNs));
}

void
Net::Cancel(int64_t flow)
{
    m->computations.Cancel(flow);
}

bool
Net::Advance(int64_t limitNs)
{
    auto& transfers = m->transfers;
    if (!transfers.done.empty())
    {
        return true;
    }
    transfers.BuryDead();
    Time wait = Max(NanoSeconds(limitNs) - Simulator::Now(), Time(0));
    auto limit = Simulator::Schedule(wait, [] { Simulator::Stop(); });
    Simulator::Run();
    Simulator::Remove(limit); // a cancelled event would stay in the queue until its time
    return !transfers.done.empty();
}

Done
Net::Pop()
{
    Done first = m->transfers.done.front();
    m->transfers.done.pop_front();
    return first;
}

double
Net::RadioJ(int node) const
{
    return m->meters.RadioJ(node);
}

double
Net::ProcessorJ(int node) const
{
    return m->meters.ProcessorJ(node);
}

uint64_t
Net::Events() const
{
    return Simulator::GetEventCount();
}

double
Net::ReceivedPowerDbm(int from, int to) const
{
    return m->scene.ReceivedPowerDbm(from, to);
}

int
Net::Awake() const
{
    return m->scene.Awake();
}
} // namespace meshfl
