// A network with some of its channels removed, seen as the whole one was.
//
// What is left need not be analysed anew, and must not be: a depthwise convolution of one channel looks like any other,
// and a single channel covers its axis, so that other classes would come out.
#pragma once

#include <set>

#include "pare/fuse/network.h"

namespace pare {

// `network` is analysed for a removal. Classes and uses correspond one to one; a class may be left with no channel.
Network cut_network(const Network& network, const std::set<ChannelId>& removed);

}  // namespace pare
