#include "pare/compensate/judge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
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
  const at::Tensor apart = sample_divergences(graph_, variants, samples_, observer_, "judging groups")
                               .reshape({static_cast<int64_t>(trials.size()), 2, -1});
  const at::Tensor gain = apart.select(1, 0) - apart.select(1, 1);
  const at::Tensor sums = at::stack({apart.select(1, 0).sum(1), apart.select(1, 1).sum(1), gain.square().sum(1)}, 1);
  observer_.ranks().sum(sums);
  const auto n = static_cast<double>(all_);
  std::vector<Judgement> judgements;
  for (int64_t t = 0; t < sums.size(0); ++t) {
    const auto mean = [&](int64_t i) { return sums[t][i].item<double>() / n; };
    Judgement own{.none = mean(0), .compensated = mean(1)};
    const double variance = mean(2) - (own.none - own.compensated) * (own.none - own.compensated);
    own.error = n > 1 ? std::sqrt(std::max(variance, 0.0) / (n - 1)) : 0;
    judgements.push_back(own);
  }
  return judgements;
}

}  // namespace pare
