// One cut of a network after another: selection, removal, compensation, with what the options say.
#pragma once

#include <map>
#include <vector>

#include "pare/prune/allocate_channels.h"
#include "pare/prune/criteria.h"
#include "pare/prune/subset.h"
#include "pare/workflow/learning_images.h"
#include "pare/workflow/prune.h"

namespace pare {

class Pruner {
 public:
  // `options` are resolved, and stay in use.
  explicit Pruner(const PruneJob& options);

  // With its residual streams in their principal components; notes say which were not.
  Graph rotated(const Graph& graph);
  // Learns once what several cuts of this network will ask, where the criterion learns.
  void learn(const Graph& graph, const BudgetOptions& budget);
  // One selection, removal and compensation.
  Graph cut(const Graph& graph, const BudgetOptions& budget);
  // Only the selection: what is left without it, not compensated.
  Graph planned(const Graph& graph, const BudgetOptions& budget);
  // What a mask has emptied, and nothing else.
  Graph remove_empty(const Graph& graph);

  PruneResult& result() { return result_; }

 private:
  Selection select(const Graph& graph, const ChannelMap& map, const BudgetOptions& budget);
  ChannelStudy studied(const Graph& graph, const ChannelMap& map, std::vector<Candidate>& groups, bool sensitivity);
  Importance importance(const Graph& graph, const ChannelMap& map);
  void average_over_ranks(Gradients& gradients, double images) const;
  void note_groups(const Selection& selection, const Compensated& done);

  // Reports to the options' progress, and has their ranks.
  class Watch : public Observer {
   public:
    explicit Watch(const PruneJob& options) : options_(options) {}
    void progress(std::string_view what, int64_t done, int64_t all) override {
      if (options_.progress) options_.progress(std::string(what), done, all);
    }
    ProcessGroup& ranks() override { return *options_.ranks; }

   private:
    const PruneJob& options_;
  };

  const PruneJob& options_;
  const Criterion& criterion_ = find_criterion(options_.criterion);
  CompensateOptions method_options_;
  const Compensation& method_;
  PruneResult result_;
  LearningImages images_;
  Watch watch_;
  std::map<size_t, std::vector<ReaderMoments>> moments_;
  Gradients gradients_;
  // Of learn(): the network, its groups and what was learned of them.
  Graph learned_;
  std::vector<Candidate> learned_groups_;
  ChannelStudy study_;
};

}  // namespace pare
