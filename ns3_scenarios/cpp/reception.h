// What ns-3's receiver does not expect.
#pragma once
#include "ns3/wifi-phy.h"

namespace meshfl
{
// A frame may begin in the very nanosecond in which a field of another one's header ends. If
// its event comes first, ns-3 finds a radio that is idle and receiving, and ends the process
// ("!m_currentEvent"). The radio is kept busy for that nanosecond, so that the frame is dropped
// as it is when it comes a nanosecond earlier or later.
void AllowForCoincidence(ns3::Ptr<ns3::WifiPhy> phy);
} // namespace meshfl
