// Traffic of others: a neighbour of each gateway, talking with it on and off.
#pragma once
#include "scene.h"

#include <vector>

namespace meshfl
{
class Background
{
  public:
    Background(const Options& options, Scene& scene);
    // Before the scene is built: a station more for each gateway, numbered after all nodes.
    void AddNeighbours(std::vector<int>& gatewayOfNode);
    // After it: they associate, stay awake, and talk.
    void Start();

  private:
    struct Neighbour
    {
        int node, gateway;
    };

    void Talk(const Neighbour& neighbour);
    void Connect(int from, int to, double rateBps);

    Options m_options;
    Scene& m_scene;
    std::vector<Neighbour> m_neighbours;
};
} // namespace meshfl
