// Structured pruning: channels are selected, removed, and the kept ones take over from them.
//
//   pare::PruneResult slim = pare::prune(model, samples, {.macs = 0.5});
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/evaluate.h"
#include "pare/graph.h"
#include "pare/inspect.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/samples.h"

namespace pare {

// How much of each group goes. uniform: the same fraction; global: the least important channels of all groups;
// allocate: by what each width costs the network's answer; automatic: allocate for the criterion obs and a budget of
// parameters, MACs or bytes, else uniform.
enum class PruneScope { automatic, uniform, global, allocate };
template <>
struct NamesOf<PruneScope> {
  static constexpr std::string_view names[] = {"auto", "uniform", "global", "allocate"};
};

// What goes of attention: whole heads, or as many dimensions of every head (those of queries with those of keys, those
// of values with what is read of them).
enum class AttentionUnit { heads, dimensions };
template <>
struct NamesOf<AttentionUnit> {
  static constexpr std::string_view names[] = {"heads", "dimensions"};
};

// What kind of images is made where a method needs some and there is no data.
enum class MadeImages { distilled, leaves, pink, smooth, white };
template <>
struct NamesOf<MadeImages> {
  static constexpr std::string_view names[] = {"distilled", "leaves", "pink", "smooth", "white"};
};

// Options of neuron merging, of non-negative least squares and of non-negative factorisation.
struct MostSimOptions {
  double threshold = 0.1;     // t: less similar ones are dropped, not merged
  double lambda = 0.85;       // weight of the cosine against the bias
  bool as_published = false;  // S and B as the authors' program computes them: gammas and variances swapped, no root
};

struct NnlsOptions {
  int64_t terms = 2;  // m
};

struct NmfOptions {
  int64_t iterations = 200;  // at most
  double tolerance = 1e-4;   // stops when ten updates lower ‖W − YZ‖² by less than this part of its first value
};

struct PruneOptions {
  std::optional<double> channels;  // fractions removed; one of the four, `widths`, or `empty`
  std::optional<double> params;
  std::optional<double> macs;
  std::optional<double> bytes;            // of the weights
  std::map<std::string, int64_t> widths;  // instead: how many channels groups keep, by name; others stay whole
  bool empty = false;                     // instead: only channels that are empty already
  std::string criterion = "auto";         // of selection_criteria(); auto: obs where the method learns, else l1
  PruneScope scope = PruneScope::automatic;
  std::vector<std::string> layers;  // GLOB or GLOB=FRACTION: only these groups
  std::vector<std::string> skip;
  int64_t round_to = 0;  // remaining widths are multiples of this; 0: of 8, or of less in narrow groups when allocated
  double floor = 0.1;    // at least this part of a group stays
  bool inner_only = false;
  AttentionUnit attention = AttentionUnit::heads;
  bool rotate = false;  // residual streams under norms into their principal components first, so that they can be cut
  int64_t steps = 1;    // cut in this many steps; together they reach the widths that one would

  // One of compensation_methods(); auto: calibrated with samples, without them synthetic where the network takes
  // pictures and no criterion of weights is named, else most-sim.
  std::string compensate = "auto";
  MostSimOptions most_sim;
  NnlsOptions nnls;
  NmfOptions nmf;
  bool unchecked = false;  // else a group is only cut where held-out samples find compensation no better
  double ridge = 0;        // of solved layers; 0: chosen on held-out samples
  MadeImages images = MadeImages::distilled;
  int64_t samples = 0;        // that methods learn from; 0: 256 of those given, 128 that are made
  int64_t distill_steps = 0;  // steps that make an image; 0: as many as it needs
  bool no_mirror = false;     // colour images are used mirrored as well unless this is set

  double minutes = 0;  // spent on repair after the layers are solved: distillation from the original, without labels
  bool plan = false;   // only select: the result has the groups and its size, and the network as it was
  std::optional<double> max_drop;  // of top-1 (multi-label: of mAP), else Error{quality}
  uint64_t seed = 0;

  void describe(OptionVisitor& options);  // all but the seed
};

// The names that `criterion` and `compensate` take.
std::vector<std::string> selection_criteria();
std::vector<std::string> compensation_methods();

struct PrunedGroup {
  std::string name;
  int64_t total = 0;
  int64_t kept = 0;
  std::string reason;        // why it was left alone, or not cut as much as asked
  std::string compensation;  // what was done about the removed channels
  double loss = 0;           // allocate: of the network's answer (KL divergence) when this group alone is cut so
};

// A model's size and, where samples have labels and outputs are the scores of classes, its accuracy; else the
// `distance` of its outputs from the original's, relative to their length.
struct Measured {
  ModelCost cost;
  MetricList metrics;  // none without samples
};

struct PruneResult {
  Graph graph;
  std::string criterion, scope, compensate;  // as they were used, where the options say `auto`
  int64_t judges = 0;                        // samples on which compensations were compared with none
  std::vector<PrunedGroup> groups;
  Measured before;
  Measured after;
  std::vector<std::string> notes;
  double seconds = 0;         // all
  double method_seconds = 0;  // selecting, removing and compensating, without making images and measuring
  double image_seconds = 0;   // loading or making images
};

// Methods learn from `samples`, which may be empty; where these have labels, the models are measured on them before and
// after. Error{quality} when the accuracy falls by more than max_drop, or was no better than chance to begin with.
PruneResult prune(const Graph& graph, const Samples& samples, const PruneOptions& options,
                  Observer& observer = unobserved());

}  // namespace pare
