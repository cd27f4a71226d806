#include "pare/compensate/judge.h"

#include <ATen/ATen.h>

#include <utility>

#include "pare/layerwise/variants.h"
#include "pare/passes/remove_channels.h"

namespace pare {

Judge::Judge(const Graph& graph, const ChannelMap& map, Samples samples, Observer& observer)
    : graph_(graph), map_(map), samples_(std::move(samples)), observer_(observer) {
  const at::Tensor count = at::full({1}, samples_.size, at::kDouble);
  observer.ranks().sum(count);
  all_ = count.item<int64_t>();
}

std::vector<Judgement> Judge::judge(const std::vector<Trial>& trials) const {
  if (samples_.size == 0 || trials.empty()) return {};
  std::vector<Graph> variants;
  for (const Trial& trial : trials) {
    variants.push_back(remove_channels(graph_, map_, trial.removed));
    variants.push_back(trial.compensated);
  }
  const auto apart = answer_divergences(graph_, variants, samples_, observer_);
  std::vector<Judgement> judgements;
  for (size_t t = 0; t < trials.size(); ++t) judgements.push_back({apart[2 * t], apart[2 * t + 1]});
  return judgements;
}

}  // namespace pare
