// Scaled copies merge exactly: channels of random graphs are made multiples of others and removed. A method reproduces
// the outputs, or says of the group why it does not merge.
//   PARE_FULL          2,000 graphs instead of 200
//   PARE_RANDOM_SEED   the first seed (1)
#include "random/scaled_copies.h"
#include "random/outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "pare/error.h"
#include "pare/run.h"
#include "random/random_graph.h"
#include "support/compensated.h"

namespace pare {
namespace {

double error_of(const Graph& graph, const Outputs& inputs, const Outputs& expected) {
  const Outputs found = forward(graph, inputs).outputs;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double scale = std::max(1e-3, expected[i].abs().max().item<double>());
    worst = std::max(worst, (found[i] - expected[i]).abs().max().item<double>() / scale);
  }
  return worst;
}

struct Count {
  int64_t merged = 0;   // channels whose removal is exact
  int64_t refused = 0;  // channels of groups that say why
  int64_t graphs = 0;   // in which something was merged
};

// Groups that were merged whole; of the others the reasons.
std::set<ChannelId> taken_over(const ChannelMap& map, const std::set<ChannelId>& removed, const Compensated& done,
                               std::map<std::string, int64_t>& reasons) {
  std::set<ChannelId> result;
  for (const auto& [g, text] : done.groups) {
    std::vector<ChannelId> own;
    for (const ChannelId id : map.groups[g].channels)
      if (removed.contains(id)) own.push_back(id);
    if (text == fmt::format("{0} of {0} merged", own.size()))
      result.insert(own.begin(), own.end());
    else
      ++reasons[text];
  }
  return result;
}

class ScaledCopiesTest : public ::testing::Test {
 protected:
  void try_graph(uint64_t seed) {
    const Graph original = cast(random_graph(seed), at::kDouble);  // rounding has no part in it
    const ChannelMap map = analyze_channels(original);
    const ScaledCopies made = with_scaled_copies(original, map, seed);
    if (made.copies.empty()) return;
    factors_ += made.factors;
    const auto inputs = random_inputs(made.graph, 2, seed);
    const Outputs expected = forward(made.graph, inputs).outputs;
    for (const char* name : {"none", "most-sim", "nnls", "gaussian", "ot"}) {
      SCOPED_TRACE(name);
      try_method(name, made, map, inputs, expected);
    }
  }

  void try_method(const std::string& name, const ScaledCopies& made, const ChannelMap& map, const Outputs& inputs,
                  const Outputs& expected) {
    const Compensation& method = find_compensation(name);
    Count& count = counts_[name];
    try {
      const auto with = [&](const std::set<ChannelId>& removed) {
        return compensated(made.graph, map, removed, method);
      };
      if (name == "none") {
        count.merged += error_of(with(made.copies).graph, inputs, expected) <= 1e-3 ? 1 : 0;
        ++count.graphs;
        return;
      }
      const auto merged = taken_over(map, made.copies, with(made.copies), reasons_);
      count.refused += static_cast<int64_t>(made.copies.size() - merged.size());
      if (merged.empty()) return;
      EXPECT_LE(error_of(with(merged).graph, inputs, expected), 1e-5) << "channels " << merged.size();
      count.merged += static_cast<int64_t>(merged.size());
      ++count.graphs;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::shape) throw;  // nothing would be left of a part of the channels
    }
  }

  std::map<std::string, Count> counts_;
  std::map<std::string, int64_t> reasons_;
  int64_t factors_ = 0;
};

TEST_F(ScaledCopiesTest, MergeExactlyOrAreRefused) {
  const at::NoGradGuard no_grad;
  const char* first = std::getenv("PARE_RANDOM_SEED");
  const uint64_t begin = first != nullptr ? std::strtoull(first, nullptr, 10) : 1;
  const uint64_t count = std::getenv("PARE_FULL") != nullptr ? 2000 : 200;
  for (uint64_t seed = begin; seed < begin + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      try_graph(seed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::cout << count << " graphs, " << factors_ << " factors\n";
  for (const auto& [name, tally] : counts_)
    std::cout << name << ": " << tally.merged << " merged in " << tally.graphs << " graphs, " << tally.refused
              << " refused\n";
  if (std::getenv("PARE_VERBOSE") != nullptr)
    for (const auto& [reason, times] : reasons_) std::cout << times << "  " << reason << "\n";
  // A plain removal is mostly far from it; merging mostly happens.
  EXPECT_LT(counts_["none"].merged, counts_["none"].graphs / 2);
  EXPECT_GE(factors_, static_cast<int64_t>(count));
  for (const char* name : {"most-sim", "nnls", "gaussian", "ot"})
    EXPECT_GE(counts_[name].merged, 2 * counts_[name].refused) << name;
}

}  // namespace
}  // namespace pare
