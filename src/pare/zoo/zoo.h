// The zoo: network architectures by name, as graphs whose tensors carry the names of PyTorch's state dicts
// (`layer1.0.conv1.weight`), so that public checkpoints load (zoo/match.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pare/graph.h"
#include "pare/io.h"

namespace pare {

struct ArchOptions {
  std::string activation;  // of activation_names(); empty: the architecture's own
  double width = 1.0;      // hidden widths c become max(1, round(width * c))
  int64_t classes = 10;
  std::vector<int64_t> input;  // channels, height, width, or how many tokens; empty: the architecture's own
  Shortcut shortcut = Shortcut::automatic;  // residual nets; their own: a for resnet20…56, b for resnet18/34
  std::optional<bool> bias;  // of linear layers, and of convolutions that have one; absent: as the architecture has it
                             // (mlpnet: none, others: all)
  double dropout = 0.0;      // before the classifier (vgg, lenet, convnet, mobilenet, squeezenet) or inside the blocks
};

struct ArchInfo {
  std::string name;
  std::string description;
  std::vector<int64_t> input;  // channels, height, width; or how many tokens
  Graph (*builder)(const ArchOptions&);
  // Module paths of other implementations and what they are called here: {"fc", "linear"}.
  std::vector<std::pair<std::string, std::string>> aliases = {};
  const char* activation = "relu";
};

const std::vector<ArchInfo>& architectures();
// The entry of a name; nullptr when there is none.
const ArchInfo* find_architecture(const std::string& name);

// The architecture with freshly initialised parameters (zoo/init.h). Input "input" [N, channels, height, width] (of a
// text encoder int64 [N, tokens]), output "logits" [N, classes]; graph.name is the architecture's name. Error{usage}
// for an unknown name (with the nearest ones) and for option values out of range; Error{shape} when the input is too
// small for the network.
Graph build(const std::string& arch, const ArchOptions& options = {}, uint64_t seed = 0);

}  // namespace pare
