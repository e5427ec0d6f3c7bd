// Nodes, radios, backhaul and routes; which station belongs to which access point.
#pragma once
#include "association.h"
#include "net.h"

#include "ns3/ipv4-address.h"
#include "ns3/node.h"
#include "ns3/propagation-loss-model.h"
#include "ns3/wifi-net-device.h"
#include "ns3/yans-wifi-helper.h"

#include <functional>
#include <map>

namespace meshfl
{
class Scene
{
  public:
    explicit Scene(const Options& options);
    int AddNode(const NodeSpec& spec);
    void AddBackhaul(const BackhaulSpec& spec);
    void Build(const std::vector<int>& gatewayOfNode);

    size_t Size() const { return m_nodes.size(); }
    const NodeSpec& Spec(int node) const { return m_specs.at(node); }
    ns3::Ptr<ns3::Node> Node(int node) const { return m_nodes.at(node); }
    ns3::Ptr<ns3::WifiNetDevice> Wifi(int node) const { return m_wifi.at(node); }
    // Where `node` is reached from `peer`.
    ns3::Ipv4Address Address(int node, int peer) const;

    void Associate(int device, int gateway);

    // A transfer keeps its devices awake and associated between Use and Release.
    void Use(int node, std::function<void()> whenReady);
    void Release(int node);
    int Awake() const;
    double ReceivedPowerDbm(int from, int to) const;

  private:
    struct Station
    {
        int users = 0;
        ns3::Ptr<OnDemandAssociation> association;
        std::vector<std::function<void()>> waiting;
        ns3::EventId doze;
        ns3::EventId tuning;
    };

    bool IsDevice(int node) const { return m_specs.at(node).tier == 2; }
    void MakeLossModel();
    void InstallWifi();
    ns3::NetDeviceContainer InstallRadio(int node,
                                         const ns3::WifiHelper& wifi,
                                         ns3::YansWifiPhyHelper& phy) const;
    void AssociateOnDemand(int device);
    void Tune(int device);
    void WantAssociation(int device);
    void InstallStack();
    void InstallBackhaul(const BackhaulSpec& spec, uint32_t number);
    uint32_t AddInterface(int node, ns3::Ptr<ns3::NetDevice> device, ns3::Ipv4Address address);
    std::string Channel(int gateway) const;
    void AllowForDistance(int node);
    void RouteTo(int device);
    void Unroute(int device);
    void PinArp(int device);
    void Ready(int device);
    bool IsAssociated(int device) const;
    bool IsDrained(int device) const;
    void MaybeSleep(int device);

    Options m_options;
    std::vector<NodeSpec> m_specs;
    std::vector<ns3::Ptr<ns3::Node>> m_nodes;
    std::vector<BackhaulSpec> m_backhaul;
    std::vector<int> m_gatewayOf;
    int m_cloud = -1;
    ns3::Ptr<ns3::PropagationLossModel> m_loss;
    std::map<int, ns3::Ptr<ns3::WifiNetDevice>> m_wifi;
    std::map<int, uint32_t> m_wifiInterface;
    std::map<int, ns3::Ipv4Address> m_wifiAddress;
    // By gateway: the two ends of its link to the cloud.
    std::map<int, ns3::Ipv4Address> m_gatewayEnd, m_cloudEnd;
    std::map<int, uint32_t> m_cloudInterface;
    std::map<int, Station> m_stations;
};
} // namespace meshfl
