#include "transfers.h"

#include "ns3/inet-socket-address.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <stdexcept>

using namespace ns3;

namespace meshfl
{
namespace
{
constexpr uint16_t kFirstPort = 10000;
constexpr uint32_t kPorts = 50000;
const Time kStragglersWithin = Seconds(2);

// A closed connection would linger, retransmit and wake sleeping radios: end it at once.
struct Resetter : public TcpSocketBase
{
    static void Reset(Ptr<Socket> socket)
    {
        if (auto tcp = DynamicCast<TcpSocketBase>(socket))
        {
            (PeekPointer(tcp)->*(&Resetter::SendRST))();
        }
    }
};

void
Silence(Ptr<Socket> socket)
{
    if (!socket)
    {
        return;
    }
    socket->SetRecvCallback(MakeNullCallback<void, Ptr<Socket>>());
    socket->SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    socket->SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(),
                               MakeNullCallback<void, Ptr<Socket>>());
    socket->SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(),
                              MakeNullCallback<void, Ptr<Socket>>());
}
} // namespace

Transfers::Transfers(const Options& options, Scene& scene, const Meters& meters)
    : m_options(options),
      m_scene(scene),
      m_meters(meters)
{
}

void
Transfers::Start(int64_t flow, Time at, int src, int dst, uint64_t bytes, Time deadline)
{
    if (at < Simulator::Now())
    {
        throw std::invalid_argument("a transfer cannot start in the past");
    }
    auto t = std::make_shared<Transfer>();
    t->flow = flow;
    t->src = src;
    t->dst = dst;
    t->bytes = std::max<uint64_t>(bytes, 1);
    t->port = kFirstPort + m_ports++ % kPorts;
    m_live[flow] = t;
    Time wait = at - Simulator::Now();
    t->next = Simulator::Schedule(wait, [this, t] { Begin(t); });
    t->deadline =
        Simulator::Schedule(wait + deadline, [this, t] { Finish(t, Status::kDeadline); });
}

void
Transfers::Begin(Handle t)
{
    t->inUse = true;
    t->radioJBefore = RadioJ(*t);
    auto ready = [this, t] {
        if (!t->finished && --t->unready == 0)
        {
            Open(t);
        }
    };
    m_scene.Use(t->src, ready);
    m_scene.Use(t->dst, ready);
}

void
Transfers::Listen(Handle t)
{
    bool tcp = m_options.transport == "tcp";
    auto type = tcp ? TcpSocketFactory::GetTypeId() : UdpSocketFactory::GetTypeId();
    t->listener = Socket::CreateSocket(m_scene.Node(t->dst), type);
    t->listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), t->port));
    std::weak_ptr<Transfer> weak = t;
    auto receive = [this, weak](Ptr<Socket> socket) {
        if (auto t = weak.lock())
        {
            Receive(t, socket);
        }
    };
    if (!tcp)
    {
        t->listener->SetAttribute("RcvBufSize", UintegerValue(1u << 30));
        t->listener->SetRecvCallback(Callback<void, Ptr<Socket>>(receive));
        return;
    }
    t->listener->Listen();
    t->listener->SetAcceptCallback(
        MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
        Callback<void, Ptr<Socket>, const Address&>(
            [weak, receive](Ptr<Socket> socket, const Address&) {
                if (auto t = weak.lock())
                {
                    t->receiver = socket;
                }
                socket->SetRecvCallback(Callback<void, Ptr<Socket>>(receive));
            }));
}

void
Transfers::Open(Handle t)
{
    Listen(t);
    bool tcp = m_options.transport == "tcp";
    auto type = tcp ? TcpSocketFactory::GetTypeId() : UdpSocketFactory::GetTypeId();
    t->sender = Socket::CreateSocket(m_scene.Node(t->src), type);
    t->sender->Bind();
    std::weak_ptr<Transfer> weak = t;
    auto send = [this, weak](Ptr<Socket>) {
        if (auto t = weak.lock())
        {
            Send(t);
        }
    };
    auto refused = [this, weak](Ptr<Socket>) {
        if (auto t = weak.lock())
        {
            Finish(t, Status::kRefused);
        }
    };
    InetSocketAddress to(m_scene.Address(t->dst, t->src), t->port);
    if (tcp)
    {
        t->sender->SetConnectCallback(Callback<void, Ptr<Socket>>(send),
                                      Callback<void, Ptr<Socket>>(refused));
        t->sender->SetSendCallback(Callback<void, Ptr<Socket>, uint32_t>(
            [send](Ptr<Socket> socket, uint32_t) { send(socket); }));
        t->sender->SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(),
                                     Callback<void, Ptr<Socket>>(refused));
        t->sender->Connect(to);
        return;
    }
    t->sender->Connect(to);
    SendDatagrams(t);
}

void
Transfers::Receive(Handle t, Ptr<Socket> socket)
{
    Address from;
    while (auto packet = socket->RecvFrom(from))
    {
        if (packet->GetSize() == 0)
        {
            break;
        }
        t->received += packet->GetSize();
    }
    if (t->received >= t->bytes)
    {
        Finish(t, Status::kArrived);
    }
}

double
Transfers::RateLimit(const Transfer& t) const
{
    double limit = 0;
    for (int node : {t.src, t.dst})
    {
        double own = m_scene.Spec(node).rateLimitBps;
        limit = own > 0 && (limit == 0 || own < limit) ? own : limit;
    }
    return limit;
}

double
Transfers::RadioJ(const Transfer& t) const
{
    return m_meters.RadioJ(t.src) + m_meters.RadioJ(t.dst);
}

Time&
Transfers::FreeFrom(const Transfer& t)
{
    bool up = m_scene.Spec(t.src).tier == 2;
    return m_free[{up ? t.src : t.dst, up}];
}

Time
Transfers::Pace(Transfer& t, uint64_t bytes)
{
    auto& free = FreeFrom(t);
    auto begin = Max(free, Simulator::Now());
    free = begin + Seconds(8 * bytes / RateLimit(t));
    t.booked = bytes;
    return begin - Simulator::Now();
}

void
Transfers::Unbook(Transfer& t)
{
    if (t.booked > 0)
    {
        FreeFrom(t) -= Seconds(8 * t.booked / RateLimit(t));
        t.booked = 0;
    }
}

// With a rate limit: a segment at a time, each when the application may. Without: all that fits.
void
Transfers::Send(Handle t)
{
    if (t->finished || t->next.IsPending())
    {
        return;
    }
    bool limited = RateLimit(*t) > 0;
    while (t->sent < t->bytes)
    {
        uint64_t chunk = limited ? m_options.segmentBytes : 64ull * m_options.segmentBytes;
        uint64_t n = std::min<uint64_t>({t->bytes - t->sent, t->sender->GetTxAvailable(), chunk});
        if (n == 0)
        {
            return; // the socket calls again
        }
        if (limited)
        {
            t->next = Simulator::Schedule(Pace(*t, n), [this, t, n] {
                if (t->sender->Send(Create<Packet>(uint32_t(n))) <= 0)
                {
                    Unbook(*t);
                    return; // the socket calls again
                }
                t->booked = 0;
                t->sent += n;
                Send(t);
            });
            return;
        }
        if (t->sender->Send(Create<Packet>(uint32_t(n))) <= 0)
        {
            return;
        }
        t->sent += n;
    }
}

void
Transfers::SendDatagrams(Handle t)
{
    if (t->sent == t->bytes)
    {
        WaitForStragglers(t);
        return;
    }
    auto n = uint32_t(std::min<uint64_t>(t->bytes - t->sent, m_options.segmentBytes));
    Time gap = t->sent == 0 ? Time(0) : Seconds(8 * n / m_options.udpRateBps);
    Time wait = RateLimit(*t) > 0 ? Pace(*t, n) : gap;
    t->next = Simulator::Schedule(wait, [this, t, n] {
        t->sender->Send(Create<Packet>(n));
        t->booked = 0;
        t->sent += n;
        SendDatagrams(t);
    });
}

void
Transfers::WaitForStragglers(Handle t)
{
    uint64_t seen = t->received;
    t->next = Simulator::Schedule(kStragglersWithin, [this, t, seen] {
        if (t->received == seen)
        {
            Finish(t, Status::kIncomplete);
        }
        else
        {
            WaitForStragglers(t);
        }
    });
}

void
Transfers::Finish(Handle t, Status status)
{
    if (t->finished)
    {
        return;
    }
    t->finished = true;
    Unbook(*t);
    // Out of the queue, and forgotten: an event holds its transfer.
    Simulator::Remove(t->deadline);
    Simulator::Remove(t->next);
    t->deadline = t->next = EventId();
    if (t->inUse)
    {
        m_scene.Release(t->src);
        m_scene.Release(t->dst);
    }
    m_live.erase(t->flow);
    m_dead.push_back(t);
    double radioJ = RadioJ(*t) - t->radioJBefore;
    done.push_back({t->flow, Simulator::Now().GetNanoSeconds(), int(status), radioJ});
    Simulator::Stop();
}

// Not from within a socket's own callback.
void
Transfers::BuryDead()
{
    for (auto& t : m_dead)
    {
        for (auto& socket : {t->sender, t->receiver, t->listener})
        {
            Silence(socket);
        }
        Resetter::Reset(t->sender);
        Resetter::Reset(t->receiver);
        if (t->sender && m_options.transport == "udp")
        {
            t->sender->Close();
        }
        if (t->listener)
        {
            t->listener->Close();
        }
        t->sender = t->receiver = t->listener = nullptr;
    }
    m_dead.clear();
}

void
Transfers::Clear()
{
    m_live.clear();
    m_dead.clear();
}
} // namespace meshfl
