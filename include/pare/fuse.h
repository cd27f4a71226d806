// Several networks made into one: aligned to a reference, averaged, repaired.
//
//   ot          optimal transport, the paper's method
//   barycentre  the same, onto the free-support barycentre of all networks' neurons instead of the reference's
//   rebasin     weight matching by coordinate descent, started from ot
//   merge-many  weight matching of each network to the mean of the others
//   hungarian   hard assignment; greedy: the closest pair first; average: no alignment
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/samples.h"

namespace pare {

// What neurons are compared by.
enum class AlignBy { weights, activations };
template <>
struct NamesOf<AlignBy> {
  static constexpr std::string_view names[] = {"weights", "activations"};
};

enum class TransportSolver { emd, sinkhorn };  // exact, or with entropy
template <>
struct NamesOf<TransportSolver> {
  static constexpr std::string_view names[] = {"emd", "sinkhorn"};
};

// unit: Euclidean between rows of length one; correlation: the same after subtracting each row's mean; euclidean: as
// published.
enum class NeuronDistance { unit, correlation, euclidean, squared, cosine };
template <>
struct NamesOf<NeuronDistance> {
  static constexpr std::string_view names[] = {"unit", "correlation", "euclidean", "squared", "cosine"};
};

// The same for every neuron, or by the norm of its weights.
enum class NeuronMass { uniform, l1, l2 };
template <>
struct NamesOf<NeuronMass> {
  static constexpr std::string_view names[] = {"uniform", "l1", "l2"};
};

// How outgoing weights are scaled where widths differ: so that sums are preserved, or averaged as published.
enum class ColumnScaling { preserving, published };
template <>
struct NamesOf<ColumnScaling> {
  static constexpr std::string_view names[] = {"preserving", "published"};
};

// What is repaired after averaging: nothing, the statistics of each neuron, or every layer by least squares towards the
// parents.
enum class FusionRepair { none, rescale, regression };
template <>
struct NamesOf<FusionRepair> {
  static constexpr std::string_view names[] = {"none", "rescale", "regression"};
};

struct FuseOptions {
  std::string method = "ot";  // one of fusion_methods()
  AlignBy align = AlignBy::weights;
  TransportSolver solver = TransportSolver::emd;
  NeuronDistance ground = NeuronDistance::unit;
  NeuronMass importance = NeuronMass::uniform;
  ColumnScaling scaling = ColumnScaling::preserving;
  FusionRepair repair = FusionRepair::none;
  double regularization = 0.01;  // of sinkhorn, relative to the largest distance
  double rho = 0;                // of the regression; 0: 0.03 on samples, 0.1 on noise
  int64_t inputs = 2000;  // of the regression: how many noise images it makes, or samples and mixtures of them it takes
  std::vector<double> weights;  // shares of the models; none: equal
  int64_t reference = 0;        // whose neurons the others are aligned to
  uint64_t seed = 0;

  void describe(OptionVisitor& options);  // all but weights and seed
};

std::vector<std::string> fusion_methods();

// What became of one class: channels that lie in the same places.
struct ClassAlignment {
  std::string name;
  int64_t source = 0;  // channels
  int64_t target = 0;
  double cost = 0;   // ⟨T, D⟩
  double split = 0;  // distance from a permutation: the mass that does not follow its row's largest entry
  bool fixed = false;
  std::string reason;     // why it is fixed
  bool converged = true;  // of sinkhorn
};

struct ModelAlignment {
  std::vector<ClassAlignment> classes;
  std::vector<at::Tensor> plans;  // of each class: double [source, target]
};

struct FusionResult {
  Graph fused;
  std::vector<Graph> aligned;              // every model in the reference's shape
  std::vector<ModelAlignment> alignments;  // of every model; the reference's plans are identities
  std::vector<double> shares;
  bool on_noise = false;  // the repair used inputs that it made itself
};

// `samples`, which need no labels, serve to align activations and to repair; empty: no data. With several ranks each
// takes its part of them. The fused model has the reference's types and batch. Error{usage} for options that do not fit
// (fewer than two models, activations without samples), Error{shape} naming the first node that differs.
FusionResult fuse(const std::vector<Graph>& models, const Samples& samples, const FuseOptions& options,
                  Observer& observer = unobserved());

}  // namespace pare
