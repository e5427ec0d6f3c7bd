// Transfers: sockets that carry so many bytes from one node to another, by a deadline.
#pragma once
#include "energy.h"
#include "net.h"
#include "scene.h"

#include "ns3/event-id.h"
#include "ns3/socket.h"

#include <deque>
#include <memory>

namespace meshfl
{
class Transfers
{
  public:
    Transfers(const Options& options, Scene& scene, const Meters& meters);
    void Start(int64_t flow, ns3::Time at, int src, int dst, uint64_t bytes, ns3::Time deadline);
    void BuryDead();
    void Clear();
    std::deque<Done> done;

  private:
    struct Transfer
    {
        int64_t flow;
        int src, dst;
        uint64_t bytes, sent = 0, received = 0;
        uint64_t booked = 0; // with Pace, and not sent yet
        bool finished = false, inUse = false;
        int unready = 2;
        double radioJBefore = 0;
        uint16_t port;
        ns3::Ptr<ns3::Socket> sender, listener, receiver;
        ns3::EventId deadline, next;
    };

    using Handle = std::shared_ptr<Transfer>;
    void Begin(Handle t);
    void Open(Handle t);
    void Listen(Handle t);
    void Receive(Handle t, ns3::Ptr<ns3::Socket> socket);
    void Send(Handle t);
    void SendDatagrams(Handle t);
    void WaitForStragglers(Handle t);
    void Finish(Handle t, Status status);
    // How long the device's application must wait before it may send; books the bytes.
    ns3::Time Pace(Transfer& t, uint64_t bytes);
    void Unbook(Transfer& t); // what will not be sent
    ns3::Time& FreeFrom(const Transfer& t);
    double RateLimit(const Transfer& t) const;
    double RadioJ(const Transfer& t) const; // of both ends, since the start of the run

    Options m_options;
    Scene& m_scene;
    const Meters& m_meters;
    std::map<int64_t, Handle> m_live;
    std::vector<Handle> m_dead;
    // By device and direction: when its application may send again.
    std::map<std::pair<int, bool>, ns3::Time> m_free;
    uint32_t m_ports = 0;
};
} // namespace meshfl
