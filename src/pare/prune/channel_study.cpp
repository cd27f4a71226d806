#include "pare/prune/channel_study.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/data/in_order.h"
#include "pare/layerwise/fisher.h"

namespace pare {

namespace {

std::vector<size_t> readers_of(const std::map<size_t, ReaderStatistics>& statistics) {
  std::vector<size_t> nodes;
  for (const auto& [node, reader] : statistics) nodes.push_back(node);
  return nodes;
}

}  // namespace

const GroupElimination* ChannelStudy::find(size_t group) const {
  const auto found = std::find_if(eliminations.begin(), eliminations.end(),
                                  [&](const GroupElimination& e) { return e.group == group; });
  return found == eliminations.end() ? nullptr : &*found;
}

ChannelStudy study_channels(const Graph& graph, const ChannelMap& map, std::vector<Candidate>& groups,
                            const Samples& samples, const StudyOptions& options, Observer& observer) {
  if (samples.size == 0) throw Error(ErrorKind::usage, "samples", "there are none to learn from");
  // Few samples are worth more where they are solved on than where they judge; a single one does both.
  const int64_t held = std::min(options.most_held,
                                static_cast<int64_t>(std::floor(static_cast<double>(samples.size) * options.held_out)));
  const Samples solved = part_of(samples, held, samples.size), judging = held > 0 ? part_of(samples, 0, held) : samples;
  const auto statistics = reader_statistics(graph, map, solved, {.seed = options.seed}, observer);
  ChannelStudy study;
  study.fisher = output_fisher(graph, readers_of(statistics), solved, {.seed = options.seed}, observer);
  std::vector<size_t> open;
  for (size_t c = 0; c < groups.size(); ++c)
    if (groups[c].open()) open.push_back(c);
  int64_t done = 0;
  in_order<GroupElimination>(
      open.size(),
      [&](size_t i) {
        return eliminate_group(graph, map, groups[open[i]].plan.group, statistics, study.fisher, options.ridge);
      },
      [&](GroupElimination elimination) {
        if (elimination.order.empty())
          groups[open[static_cast<size_t>(done)]].plan.reason = elimination.reason;
        else
          study.eliminations.push_back(std::move(elimination));
        observer.step("ordering channels", ++done, static_cast<int64_t>(open.size()));
      });
  if (options.sensitivity)
    study.sensitivity =
        measure_sensitivity(graph, map, study.eliminations, statistics, judging, {.ridge = options.ridge}, observer);
  return study;
}

}  // namespace pare
