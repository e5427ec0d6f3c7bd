// The traffic of live_ns3.py without Python: reads a scene file, prints how every transfer ended.
//
//     driver SCENE BYTES AT_A_TIME
#include "net.h"

#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <sys/resource.h>

using namespace meshfl;

namespace
{
constexpr int64_t kDeadline = 3'600'000'000'000, kForever = 1'000'000'000'000'000;

double
CpuSeconds()
{
    rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_utime.tv_sec + use.ru_stime.tv_sec +
           1e-6 * (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

struct SceneFile
{
    Options options;
    std::vector<NodeSpec> nodes;
    std::vector<BackhaulSpec> links;
    std::vector<std::vector<double>> boxes;
    std::vector<int> gatewayOf; // when built
    std::vector<int> homes;     // the gateway that each device talks to
};

void
ReadOptions(std::istream& in, Options& o)
{
    in >> o.standard >> o.bandGhz >> o.widthMhz >> o.rateManager >> o.loss >> o.lossExponent >>
        o.fixedRssDbm >> o.shadowingSigmaDb >> o.transport >> o.sensitivityDbm >>
        o.longestLinkM >> o.seed >> o.queue >> o.macQueuePackets >> o.rtsBytes;
}

void
ReadNode(std::istream& in, SceneFile& scene)
{
    NodeSpec n;
    int gateway, home;
    in >> n.tier >> n.x >> n.y >> n.z >> n.txPowerDbm >> n.gainDbi >> n.channel >>
        n.rateLimitBps >> gateway >> home;
    scene.nodes.push_back(n);
    scene.gatewayOf.push_back(gateway);
    scene.homes.push_back(home);
}

void
ReadLink(std::istream& in, SceneFile& scene)
{
    BackhaulSpec l;
    in >> l.a >> l.b >> l.kind >> l.rateBps >> l.latencyS;
    scene.links.push_back(l);
}

void
ReadBox(std::istream& in, SceneFile& scene)
{
    std::vector<double> box(5);
    for (auto& side : box)
    {
        in >> side;
    }
    scene.boxes.push_back(box);
}

SceneFile
Read(const char* path)
{
    SceneFile scene;
    std::ifstream file(path);
    for (std::string line, kind; std::getline(file, line);)
    {
        std::istringstream in(line);
        in >> kind;
        kind == "options" ? ReadOptions(in, scene.options)
        : kind == "node"  ? ReadNode(in, scene)
        : kind == "link"  ? ReadLink(in, scene)
                          : ReadBox(in, scene);
        if (!in)
        {
            throw std::invalid_argument("cannot read: " + line);
        }
    }
    return scene;
}

void
Build(Net& net, const SceneFile& scene)
{
    for (auto& node : scene.nodes)
    {
        net.AddNode(node);
    }
    for (auto& link : scene.links)
    {
        net.AddBackhaul(link);
    }
    for (auto& b : scene.boxes)
    {
        net.AddBuilding(b[0], b[1], b[2], b[3], b[4]);
    }
    net.Build(scene.gatewayOf);
}

// Every device gets a model and sends one back; so many devices of a gateway at a time.
class Traffic
{
  public:
    Traffic(Net& net, const std::vector<int>& homes, uint64_t bytes)
        : m_net(net),
          m_homes(homes),
          m_bytes(bytes)
    {
        for (int node = 0; node < int(homes.size()); node++)
        {
            if (homes[node] >= 0)
            {
                m_waiting[homes[node]].push_back(node);
            }
        }
    }

    void Run(int atATime)
    {
        for (auto& [gateway, waiting] : m_waiting)
        {
            for (int i = 0; i < atATime; i++)
            {
                Next(0, gateway);
            }
        }
        while (m_net.Advance(kForever))
        {
            Done done = m_net.Pop();
            std::cout << done.flow << ' ' << done.timeNs << ' ' << done.status << '\n';
            React(done);
        }
    }

  private:
    void React(const Done& done)
    {
        auto [src, dst] = m_ends[done.flow];
        bool down = m_homes[dst] >= 0;
        down ? Send(done.timeNs, dst, src) : Next(done.timeNs, dst);
    }

    void Next(int64_t now, int gateway)
    {
        auto& waiting = m_waiting.at(gateway);
        if (!waiting.empty())
        {
            int device = waiting.front();
            waiting.pop_front();
            m_net.Associate(device, gateway);
            Send(now, gateway, device);
        }
    }

    void Send(int64_t now, int src, int dst)
    {
        m_net.Start(int64_t(m_ends.size()), now, src, dst, m_bytes, kDeadline);
        m_ends.push_back({src, dst});
    }

    Net& m_net;
    const std::vector<int>& m_homes;
    uint64_t m_bytes;
    std::map<int, std::deque<int>> m_waiting;
    std::vector<std::pair<int, int>> m_ends;
};
} // namespace

int
main(int, char** argv)
{
    auto scene = Read(argv[1]);
    Net net(scene.options);
    Build(net, scene);
    double built = CpuSeconds();
    Traffic(net, scene.homes, std::stoull(argv[2])).Run(std::stoi(argv[3]));
    std::cout << "events " << net.Events() << '\n' << "cpu_s " << CpuSeconds() - built << '\n';
}
