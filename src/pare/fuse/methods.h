// How networks are aligned before they are averaged: the list of fusion methods. A new one is a function here and a
// line in fuse/methods.cpp.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "pare/fuse.h"
#include "pare/fuse/network.h"
#include "pare/fuse/optimal_transport.h"
#include "pare/observer.h"

namespace pare {

// What a method aligns: networks of one topology, the samples of this rank, and who watches.
struct AlignmentTask {
  const std::vector<Network>& networks;
  size_t reference = 0;
  const FuseOptions& options;
  const std::vector<double>& shares;
  const std::vector<at::Tensor>& samples;
  Observer& observer;

  const Network& target() const { return networks[reference]; }
};

struct FusionMethod {
  std::string name;
  std::set<std::string> options;  // about the alignment, that it looks at
  std::vector<Alignment> (*align)(const AlignmentTask&) = nullptr;
  ChannelUse use = ChannelUse::exchange;
  bool keeps_function = true;               // what it carries over by permutations computes what it did before
  std::set<NeuronDistance> distances = {};  // none: any
};

const std::vector<FusionMethod>& fusion_method_list();
const FusionMethod& find_fusion_method(const std::string& name);  // Error{usage}

}  // namespace pare
