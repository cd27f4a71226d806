#include "pare/zoo/match.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "pare/error.h"
#include "pare/zoo/nearest.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

bool is_state(const at::Tensor& tensor) { return tensor.is_floating_point() && tensor.dim() > 0; }

// Bookkeeping that PyTorch stores beside the weights: nothing a network computes with.
bool is_bookkeeping(const std::string& key, const at::Tensor& tensor) {
  return key.ends_with("num_batches_tracked") || !is_state(tensor);
}

// `name` with the module path `from` replaced by `to`, or nothing where the path does not occur.
std::optional<std::string> replace_path(const std::string& name, const std::string& from, const std::string& to) {
  const size_t found = ("." + name).find("." + from + ".");
  if (found == std::string::npos) return std::nullopt;
  return name.substr(0, found) + to + name.substr(found + from.size());
}

class StateMatcher {
 public:
  explicit StateMatcher(const Graph& graph) {
    for (const std::string& name : state_names(graph)) names_.insert(name);
    if (const ArchInfo* info = find_architecture(graph.name)) aliases_ = info->aliases;
  }

  // The name of the state that a key without its prefix means; nullptr when there is none.
  const std::string* find(const std::string& key) const {
    if (const auto found = names_.find(key); found != names_.end()) return &*found;
    for (const auto& [theirs, ours] : aliases_)
      if (const auto renamed = replace_path(key, theirs, ours))
        if (const auto found = names_.find(*renamed); found != names_.end()) return &*found;
    return nullptr;
  }

  // The prefix under which most keys have a place; of several the shortest.
  std::string common_prefix(const WeightList& weights) const {
    std::map<std::string, size_t> votes;
    for (const auto& [key, tensor] : weights)
      for (size_t start = 0; start != std::string::npos && start < key.size();) {
        if (find(key.substr(start)) != nullptr) ++votes[key.substr(0, start)];
        const size_t dot = key.find('.', start);
        start = dot == std::string::npos ? dot : dot + 1;
      }
    std::string best;
    size_t most = 0;
    for (const auto& [prefix, count] : votes)
      if (count > most || (count == most && prefix.size() < best.size())) {
        best = prefix;
        most = count;
      }
    return best;
  }

  bool is_name(const std::string& name) const { return names_.contains(name); }

 private:
  std::set<std::string> names_;
  std::vector<std::pair<std::string, std::string>> aliases_;
};

// At most `count` of the names, then how many more there are.
std::string name_list(const std::vector<std::string>& names, size_t count = 8) {
  const size_t shown = std::min(count, names.size());
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// A missing name and the key that may have been meant: "linear.weight (is it fc.weight?)". Nothing is offered that
// differs in more than half of the name.
std::string suggest_key(const std::string& missing, const std::vector<std::string>& unexpected) {
  const auto near = nearest(missing, unexpected, 1);
  if (near.empty() || edit_distance(missing, near.front()) > missing.size() / 2) return missing;
  return fmt::format("{} (is it {}?)", missing, near.front());
}

void require_complete(const std::string& where, std::vector<std::string> missing,
                      const std::vector<std::string>& unexpected, bool allow_unexpected) {
  if (missing.empty() && (unexpected.empty() || allow_unexpected)) return;
  std::vector<std::string> parts;
  if (!missing.empty()) {
    for (size_t i = 0; i < std::min<size_t>(missing.size(), 8); ++i) missing[i] = suggest_key(missing[i], unexpected);
    parts.push_back(fmt::format("missing {}: {}", missing.size(), name_list(missing)));
  }
  if (!unexpected.empty()) parts.push_back(fmt::format("unexpected {}: {}", unexpected.size(), name_list(unexpected)));
  throw Error(ErrorKind::format, where, "the checkpoint's names do not fit; {}", fmt::join(parts, "; "));
}

// Whether PyTorch has a tensor of a graph of the zoo the other way round: the weight of a product over tokens.
bool is_turned(const Graph& graph, const std::string& name) {
  if (find_architecture(graph.name) == nullptr || graph.tensor(name).dim() != 2) return false;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.op == "MatMul" && node.domain.empty() && node.inputs.at(1) == name;
  });
}

struct ShapeMismatch {
  std::string name;
  std::vector<int64_t> expected;
  std::vector<int64_t> found;
};

// One factor on every axis that differs hints at a width; differences on the first axis of the last layer alone at the
// number of classes.
std::string shape_hint(const std::vector<ShapeMismatch>& mismatches, int64_t classes) {
  std::set<int64_t> heads;   // other extents where the number of classes was expected
  std::set<double> factors;  // the other ratios found : expected, to two digits
  for (const auto& [name, expected, found] : mismatches) {
    if (expected.size() != found.size()) return "";
    for (size_t axis = 0; axis < expected.size(); ++axis) {
      if (expected[axis] == found[axis]) continue;
      if (axis == 0 && expected[axis] == classes) {
        heads.insert(found[axis]);
        continue;
      }
      const double ratio = static_cast<double>(found[axis]) / static_cast<double>(expected[axis]);
      factors.insert(std::round(ratio * 100) / 100);
    }
  }
  if (factors.size() == 1 && heads.empty())
    return fmt::format("; every width differs by the factor {0}: multiply `width` by {0}", *factors.begin());
  if (factors.empty() && heads.size() == 1) return fmt::format("; `classes` {} would fit", *heads.begin());
  return "";
}

void require_shapes(const Graph& graph, const std::vector<ShapeMismatch>& mismatches) {
  if (mismatches.empty()) return;
  const auto& output = graph.outputs.empty() ? std::nullopt : graph.outputs.front().dims;
  const int64_t classes = output && !output->empty() ? output->back().size : -1;
  const auto& [name, expected, found] = mismatches.front();
  const std::string others =
      mismatches.size() > 1 ? fmt::format(" (and {} more tensors)", mismatches.size() - 1) : std::string();
  throw Error(ErrorKind::shape, name, "{} expects [{}], the checkpoint has [{}]{}{}", graph.name,
              fmt::join(expected, ", "), fmt::join(found, ", "), others, shape_hint(mismatches, classes));
}

}  // namespace

std::vector<std::string> state_names(const Graph& graph) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes)
    for (const std::string& input : node.inputs) {
      const auto found = graph.tensors.find(input);
      if (found != graph.tensors.end() && is_state(found->second) && seen.insert(input).second) names.push_back(input);
    }
  return names;
}

at::Tensor in_state(const Graph& graph, const std::string& name) {
  const at::Tensor& tensor = graph.tensor(name);
  return is_turned(graph, name) ? tensor.t() : tensor;
}

Graph with_weights(const Graph& graph, const WeightList& weights, MatchReport& report, const MatchOptions& options) {
  const StateMatcher matcher(graph);
  report = {};
  report.prefix = matcher.common_prefix(weights);

  std::map<std::string, std::pair<std::string, at::Tensor>> values;  // by the graph's name
  std::vector<std::string> unexpected;                               // without the prefix, as an error shows them
  std::vector<std::string> unplaced;                                 // the same as the checkpoint calls them
  // Keys that need no alias go first, so that an alias never takes their place.
  for (const bool exact : {true, false})
    for (const auto& [key, tensor] : weights) {
      const bool prefixed = key.starts_with(report.prefix);
      const std::string own = prefixed ? key.substr(report.prefix.size()) : key;
      if (matcher.is_name(own) != exact) continue;
      const std::string* name = prefixed ? matcher.find(own) : nullptr;
      if (name != nullptr && values.emplace(*name, std::pair(key, tensor)).second) continue;
      if (is_bookkeeping(key, tensor)) {
        report.ignored.push_back(key);
      } else {
        unexpected.push_back(own);
        unplaced.push_back(key);
      }
    }

  std::vector<std::string> missing;
  std::vector<ShapeMismatch> mismatches;
  Graph result = graph;
  for (const std::string& name : state_names(graph)) {
    const auto found = values.find(name);
    if (found == values.end()) {
      missing.push_back(name);
      continue;
    }
    const auto& [key, value] = found->second;
    const at::Tensor expected = in_state(graph, name);
    if (value.sizes() != expected.sizes())
      mismatches.push_back({name, expected.sizes().vec(), value.sizes().vec()});
    else
      result.tensors.at(name) = (is_turned(graph, name) ? value.t() : value).to(expected.scalar_type()).contiguous();
    report.matched.emplace_back(key, name);
  }
  require_complete(graph.name, missing, unexpected, options.allow_unexpected);
  require_shapes(graph, mismatches);
  report.ignored.insert(report.ignored.end(), unplaced.begin(), unplaced.end());
  return result;
}

}  // namespace pare
