// No compensation is worse than none on a real network: a small form of bench/compensations.sh. Top-1 of few pictures
// is chance, so the network's answer on them is compared instead.
#include <gtest/gtest.h>

#include "pare/layerwise/variants.h"
#include "pare/passes/working_form.h"
#include "pare/samples/samples.h"
#include "pare/workflow/pruner.h"
#include "pare/zoo/model.h"
#include "support/paths.h"

namespace pare {
namespace {

class OnSqueezeNet {
 public:
  explicit OnSqueezeNet(const std::string& file) : graph_(working_form(load_model(file, {}).graph)) {
    job_.data.data = "csv:" + shared_data("imagenet-sample/labels.csv").string();
    job_.data.limit = 24;
    job_.channels = 0.25;
    job_.criterion = "l1";
    test_ = samples_of(job_.data.load(graph_), graph_);
  }

  // The divergence on test pictures with one group cut alone.
  double divergence(const std::string& group, const std::string& method) {
    PruneJob job = job_;
    job.compensate = method;
    job.layers = {group};
    job = job.resolved(graph_);
    return answer_divergences(graph_, {Pruner(job).cut(graph_, job.budget())}, test_, unobserved(), "").at(0);
  }

 private:
  Graph graph_;
  PruneJob job_;
  Samples test_;
};

// Two groups at which most-sim is worse than none unless it is judged.
TEST(Compensation, IsNeverWorseThanNoneOnSqueezeNet) {
  const auto file = shared_data("squeezenet1.1.imagenet.onnx");
  if (file.empty()) GTEST_SKIP() << "../shared/data/squeezenet1.1.imagenet.onnx is not on this machine";
  OnSqueezeNet net(file.string());
  for (const std::string group : {"conv_6", "conv_57"}) {
    const double none = net.divergence(group, "none");
    EXPECT_GT(none, 0);
    for (const std::string method : {"most-sim", "gaussian", "ot-average"})
      EXPECT_LE(net.divergence(group, method), 1.05 * none) << method << " at " << group;
  }
}

}  // namespace
}  // namespace pare
