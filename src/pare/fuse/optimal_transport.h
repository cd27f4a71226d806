// Model fusion via optimal transport (Singh & Jaggi, NeurIPS 2020): the alignment.
//
// From the input on, layer l after layer:
//   1. Ŵ_A(l) = W_A(l) · T(l−1) diag(1/β(l−1)): the previous maps are carried into the columns;
//   2. neurons become points: rows of Ŵ_A(l) and W_B(l) with their biases, or pre-activations over samples;
//   3. D(l): the ground cost between them; α, β uniform or by importance;
//   4. T(l) = argmin over couplings of α and β of ⟨T, D⟩, exact or entropic;
//   5. W̃_A(l) = diag(1/β) Tᵀ Ŵ_A(l).
// Here a layer is a class of channels (fuse/network.h), so that one map serves everything that carries them, and the
// outputs' map is the identity.
//
// Channels that fall into blocks (fuse/blocks.h) are matched in two steps: blocks with blocks, by the cost of what lies
// in them, and channels inside. Where D leaves channels alike, their traces (fuse/points.h) decide.
//
// The same walk with another rule at step 4 gives the baselines: greedy matching (the closest pair first), Hungarian
// (hard assignment; where widths differ the rest has no partner), identity (no alignment at all).
#pragma once

#include <string>
#include <vector>

#include "pare/fuse.h"
#include "pare/fuse/blocks.h"
#include "pare/fuse/points.h"
#include "pare/observer.h"
#include "pare/transport/ground_cost.h"

namespace pare {

enum class PlanRule { exact, sinkhorn, hungarian, greedy, identity };

struct TransportFusionOptions {
  PlanRule rule = PlanRule::exact;
  GroundCost ground = GroundCost::euclidean;
  bool unit_rows = true;  // points divided by their norms; the paper's form has false
  bool centred = false;   // first freed of their mean: with unit rows distances are then correlations
  NeuronMass importance = NeuronMass::uniform;
  ColumnScaling scaling = ColumnScaling::preserving;
  double regularization = 0.01;  // of sinkhorn, relative to the largest cost
};

struct Alignment {
  ClassMaps maps;
  BlockMaps blocks;
  std::vector<ClassAlignment> classes;
};

// Activations of both, or null for weights.
struct ActivationPair {
  const ActivationPoints* source = nullptr;
  const ActivationPoints* target = nullptr;
};

Alignment align_by_transport(const Network& source, const Network& target, const TransportFusionOptions& options,
                             const ActivationPair& activations = {}, Observer& observer = unobserved());

}  // namespace pare
