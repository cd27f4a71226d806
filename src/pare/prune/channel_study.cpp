#include "pare/prune/channel_study.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "pare/data/in_order.h"
#include "pare/layerwise/fisher.h"

namespace pare {

namespace {

class Study {
 public:
  Study(const Graph& graph, const ChannelMap& map, std::vector<Candidate>& groups, const StudyOptions& options,
        Observer& observer)
      : graph_(graph), map_(map), groups_(groups), options_(options), observer_(observer) {
    for (size_t c = 0; c < groups.size(); ++c)
      if (groups[c].open()) open_.push_back(c);
  }

  ChannelStudy run(const Samples& solved, const Samples& judging) {
    for (const auto& some : portions()) study(some, solved, judging);
    return std::move(study_);
  }

 private:
  StatisticsOptions statistics_of(const std::vector<size_t>& candidates) const {
    StatisticsOptions options{.seed = options_.seed, .groups = std::set<size_t>()};
    for (const size_t c : candidates) options.groups->insert(groups_[c].plan.group);
    return options;
  }

  // Groups that are studied together. All ranks divide them alike.
  std::vector<std::vector<size_t>> portions() const {
    const int64_t memory = agreed(options_.memory, observer_.ranks());
    std::vector<std::vector<size_t>> portions;
    int64_t bytes = 0;
    for (const size_t c : open_) {
      const int64_t own = bytes_of(c);
      if (portions.empty() || bytes + own > memory) portions.emplace_back(), bytes = 0;
      portions.back().push_back(c);
      bytes += own;
    }
    return portions;
  }

  int64_t bytes_of(size_t candidate) const { return statistics_bytes(graph_, map_, statistics_of({candidate})); }

  void study(const std::vector<size_t>& some, const Samples& solved, const Samples& judging) {
    const auto statistics = reader_statistics(graph_, map_, solved, statistics_of(some), observer_);
    std::vector<size_t> readers;
    for (const auto& [node, reader] : statistics)
      if (!study_.fisher.contains(node)) readers.push_back(node);
    if (!readers.empty())
      study_.fisher.merge(output_fisher(graph_, readers, solved, {.seed = options_.seed}, observer_));
    std::vector<GroupElimination> eliminations = ordered(some, statistics);
    if (options_.sensitivity)
      std::ranges::move(
          measure_sensitivity(graph_, map_, eliminations, statistics, judging, {.ridge = options_.ridge}, observer_),
          std::back_inserter(study_.sensitivity));
    std::ranges::move(eliminations, std::back_inserter(study_.eliminations));
  }

  std::vector<GroupElimination> ordered(const std::vector<size_t>& some,
                                        const std::map<size_t, ReaderStatistics>& statistics) {
    std::vector<GroupElimination> eliminations;
    size_t next = 0;
    in_order<GroupElimination>(
        some.size(),
        [&](size_t i) {
          return eliminate_group(graph_, map_, groups_[some[i]].plan.group, statistics, study_.fisher, options_.ridge);
        },
        [&](GroupElimination elimination) {
          if (elimination.order.empty())
            groups_[some[next]].plan.reason = elimination.reason;
          else
            eliminations.push_back(std::move(elimination));
          ++next;
          observer_.step("ordering channels", ++done_, static_cast<int64_t>(open_.size()));
        });
    return eliminations;
  }

  const Graph& graph_;
  const ChannelMap& map_;
  std::vector<Candidate>& groups_;
  const StudyOptions& options_;
  Observer& observer_;
  std::vector<size_t> open_;
  int64_t done_ = 0;
  ChannelStudy study_;
};

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
  return Study(graph, map, groups, options, observer).run(solved, judging);
}

}  // namespace pare
