// Is a compensation better than none? Judged by the network's answer on samples that it did not learn from: group by
// group, each cut alone, and then all together. What is not better than plain removal by more than chance is
// given up.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

// The divergence of the network's answer from the original's, its channels only removed and compensated: means over the
// samples, and the standard error of their difference.
struct Judgement {
  double none = 0;
  double compensated = 0;
  double error = 0;
  // A gain that may as well be chance counts as none, and so does one that is not a number.
  bool better() const { return none - compensated > error; }
};

class Judge {
 public:
  // Without samples there is no judgement, and nothing is worse.
  Judge(const Graph& graph, const ChannelMap& map, Samples samples, Observer& observer);

  // A network in which only these channels are gone, compensated.
  struct Trial {
    std::set<ChannelId> removed;
    Graph compensated;
  };
  // In the order of the trials; empty where there are no samples.
  std::vector<Judgement> judge(const std::vector<Trial>& trials) const;

  int64_t samples() const { return all_; }  // of all ranks

 private:
  const Graph& graph_;
  const ChannelMap& map_;
  Samples samples_;
  int64_t all_ = 0;
  Observer& observer_;
};

}  // namespace pare
