// The transfer manager as Python sees it. Standard types only: cppyy has next to nothing to parse.
//
//            cloud
//           /     \        backhaul: point-to-point or CSMA, rate and latency of each link
//         gw0     gw1      one Wi-Fi access point each, on a channel of its own
//        / | \     | \     stations, associated with one access point at a time
//      d0 d1  d2  d3  d4
//
// One Net a process, for ns-3's simulator is global. Times are nanoseconds since the start.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace meshfl
{
struct Options
{
    std::string standard = "n";      // b | g | n | ac | ax
    double bandGhz = 5;              // 2.4 | 5
    int widthMhz = 20;               // of n, ac and ax
    std::string rateManager = "ideal"; // ideal | minstrel | constant:MODE
    std::string loss = "hybrid-buildings"; // hybrid-buildings | itu-r-1411 | log-distance | fixed
    double lossExponent = 3;         // log-distance
    double fixedRssDbm = -60;        // fixed
    double shadowingSigmaDb = 0;     // log-normal, one draw per pair of nodes
    std::string transport = "tcp";   // tcp | udp
    double udpRateBps = 5e6;         // how fast a UDP sender without a rate limit sends
    uint32_t segmentBytes = 1448;
    uint32_t amsduBytes = 3839;      // of n, ac and ax; 0: no aggregation into A-MSDUs. An A-MSDU
                                     // that takes over 5 ms at the lowest rate is never sent.
    uint32_t delayedAcks = 8;        // segments per TCP acknowledgement
    double macQueueDelayS = 2;       // a frame waits no longer in a Wi-Fi queue
    std::string queue = "fq-codel";  // fq-codel | fifo: what stands before a Wi-Fi device
    uint32_t macQueuePackets = 100;  // in a Wi-Fi device itself
    uint32_t rtsBytes = 2000;        // longer frames are announced by RTS/CTS
    double longestLinkM = 0;         // the slot time allows for its round trip
    double sensitivityDbm = -92;     // weaker frames are not noticed
    bool energy = false;             // meter the radios and processors of devices
    double backgroundDownBps = 0, backgroundUpBps = 0; // while on; both 0: no neighbours
    double backgroundOnS = 1, backgroundOffS = 1;      // means of exponentials
    uint32_t backgroundPacketBytes = 1000;
    uint64_t seed = 1;
};

struct NodeSpec
{
    int tier = 0; // 0 cloud, 1 gateway, 2 device
    double x = 0, y = 0, z = 0;
    double txPowerDbm = 20, gainDbi = 0;
    int channel = 0;        // of a gateway
    double rateLimitBps = 0; // of a device's application, each way; 0: none
    double idleW = 0, busyW = 0; // of a device's processor
};

struct BackhaulSpec
{
    int a = 0, b = 0;
    std::string kind = "p2p"; // p2p | csma
    double rateBps = 1e9, latencyS = 0;
};

enum class Status : int
{
    kArrived = 0,
    kDeadline,
    kRefused,
    kIncomplete
};

struct Done
{
    int64_t flow = -1;
    int64_t timeNs = 0;
    int status = 0;
    double radioJ = 0; // what the radios of its devices used meanwhile, if there are meters
};

class Net
{
  public:
    explicit Net(const Options& options);
    ~Net();
    int AddNode(const NodeSpec& spec);
    void AddBackhaul(const BackhaulSpec& spec);
    void AddBuilding(double xMin, double xMax, double yMin, double yMax, double height);
    void Build(std::vector<int> gatewayOfNode); // -1 for cloud and gateways

    // Between transfers of that device; the station associates anew when it next has to send.
    void Associate(int device, int gateway);

    void Start(int64_t flow, int64_t atNs, int src, int dst, uint64_t bytes, int64_t deadlineNs);
    // The device is busy so long; the end counts as one of a transfer.
    void Compute(int64_t flow, int64_t atNs, int node, int64_t durationNs);
    void Cancel(int64_t flow); // a computation that has not ended
    // Runs to the first transfer that ends, at the latest to limitNs; true: Pop has one.
    bool Advance(int64_t limitNs);
    Done Pop();

    // Since the start; 0 without meters.
    double RadioJ(int node) const;
    double ProcessorJ(int node) const;

    uint64_t Events() const;
    double ReceivedPowerDbm(int from, int to) const;
    int Awake() const; // radios of devices that do not sleep

  private:
    struct Impl;
    std::unique_ptr<Impl> m;
};
} // namespace meshfl
