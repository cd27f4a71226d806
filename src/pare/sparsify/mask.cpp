#include "pare/sparsify/mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "pare/core/glob.h"
#include "pare/error.h"
#include "pare/io/safetensors.h"
#include "pare/ops/op.h"

namespace pare {

void MaskOptions::describe(OptionVisitor& options) {
  options.heading("which tensors are masked");
  options.field("include", include, "globs of the weight tensors to mask (all)");
  options.field("exclude", exclude, "globs of the weight tensors to leave dense");
  options.field("with-last", with_last, "mask the last linear layer too");
  options.field("distribution", distribution, "how the kept weights spread over the layers");
  options.essential().field("pattern", pattern, "N:M, at most N of every M neighbouring inputs are kept, as 2:4");
  options.field("block", block, "OUTPUTSxINPUTS, weights go in such tiles, as 1x4");
  options.field("allow-empty", allow_empty, "let a layer lose all its weights");
}

std::vector<std::string> maskable_tensors(const Graph& graph, const MaskOptions& options) {
  std::vector<std::string> names;
  std::string last;
  for (const auto& node : graph.nodes) {
    for (size_t i = 0; i < 2; ++i) {
      if (!node.has_input(i) || !graph.is_constant(node.inputs[i])) continue;
      const auto layer = linear_layer(node, i, graph.tensor(node.inputs[i]).dim());
      if (!layer) continue;
      if (!at::isFloatingType(graph.tensor(node.inputs[i]).scalar_type())) continue;
      if (std::find(names.begin(), names.end(), node.inputs[i]) == names.end()) names.push_back(node.inputs[i]);
      if (!layer->is_convolution()) last = node.inputs[i];
    }
  }
  if (!options.with_last) std::erase(names, last);
  const auto matches = [&](const std::vector<std::string>& globs, const char* option) {
    std::set<std::string> found;
    for (const auto& pattern : globs) {
      const size_t before = found.size();
      for (const auto& name : names)
        if (glob_matches(pattern, name)) found.insert(name);
      if (found.size() == before)
        throw Error(ErrorKind::usage, OptionName{option}, "'{}' matches no weight tensor", pattern);
    }
    return found;
  };
  const auto included = matches(options.include, "include");
  const auto excluded = matches(options.exclude, "exclude");
  std::erase_if(names, [&](const std::string& name) {
    return excluded.contains(name) || (!options.include.empty() && !included.contains(name));
  });
  if (names.empty()) throw Error(ErrorKind::usage, graph.name, "there is no weight tensor to mask");
  return names;
}

namespace {

struct Entry {
  double score;
  double second;
  int64_t place;                              // over all tensors
  bool operator<(const Entry& other) const {  // the better first
    if (score != other.score) return score > other.score;
    if (second != other.second) return second > other.second;
    return place < other.place;
  }
};

std::vector<Entry> entries_of(const at::Tensor& score, const at::Tensor* second, int64_t place) {
  const at::Tensor a = score.detach().to(at::kDouble).contiguous();
  const at::Tensor b = second != nullptr ? second->detach().to(at::kDouble).contiguous() : at::Tensor();
  std::vector<Entry> entries(static_cast<size_t>(a.numel()));
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double value = a.data_ptr<double>()[i];
    entries[static_cast<size_t>(i)] = {std::isnan(value) ? -std::numeric_limits<double>::infinity() : value,
                                       b.defined() ? b.data_ptr<double>()[i] : 0, place + i};
  }
  return entries;
}

int64_t kept_count(double sparsity, int64_t count) {
  return std::clamp<int64_t>(std::llround((1 - sparsity) * static_cast<double>(count)), 0, count);
}

}  // namespace

std::vector<double> erk_densities(const std::vector<std::vector<int64_t>>& shapes, double sparsity) {
  std::vector<double> raw;
  std::vector<double> sizes;
  for (const auto& shape : shapes) {
    const double sum = static_cast<double>(std::accumulate(shape.begin(), shape.end(), int64_t{0}));
    double product = 1;
    for (const int64_t extent : shape) product *= static_cast<double>(extent);
    raw.push_back(sum / product);
    sizes.push_back(product);
  }
  std::vector<bool> full(shapes.size(), false);
  const double wanted = (1 - sparsity) * std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::vector<double> density(shapes.size(), 0);
  while (true) {
    double budget = wanted;
    double weight = 0;
    for (size_t i = 0; i < shapes.size(); ++i) (full[i] ? budget : weight) += full[i] ? -sizes[i] : raw[i] * sizes[i];
    const double scale = weight > 0 ? std::max(budget, 0.0) / weight : 0;
    bool again = false;
    for (size_t i = 0; i < shapes.size(); ++i) {
      density[i] = full[i] ? 1 : scale * raw[i];
      if (!full[i] && density[i] > 1) full[i] = again = true;
    }
    if (!again) return density;
  }
}

TensorMap masks_by_score(const TensorMap& scores, const TensorMap& second, double sparsity,
                         const MaskOptions& options) {
  if (!(sparsity >= 0 && sparsity < 1))
    throw Error(ErrorKind::usage, OptionName{"sparsity"}, "expected a part in [0, 1), found {}", sparsity);
  TensorMap masks;
  if (!options.pattern.empty()) {
    const Pattern pattern = parse_pattern(options.pattern);
    for (const auto& [name, score] : scores) {
      const auto along = options.axes.find(name);
      masks[name] = pattern_mask(score, pattern, along != options.axes.end() ? along->second : InputAxis{});
    }
    return masks;
  }
  std::vector<std::vector<Entry>> layers;
  std::vector<std::vector<int64_t>> shapes;
  int64_t all = 0;
  for (const auto& [name, score] : scores) {
    const auto tie = second.find(name);
    layers.push_back(entries_of(score, tie != second.end() ? &tie->second : nullptr, all));
    shapes.push_back(score.sizes().vec());
    all += score.numel();
  }
  std::vector<uint8_t> keep(static_cast<size_t>(all), 0);
  const auto take_best = [&](std::vector<Entry>& entries, int64_t count) {
    std::nth_element(entries.begin(), entries.begin() + count, entries.end());
    for (int64_t i = 0; i < count; ++i) keep[static_cast<size_t>(entries[static_cast<size_t>(i)].place)] = 1;
  };
  const int64_t budget = kept_count(sparsity, all);
  if (options.distribution == MaskDistribution::global || options.distribution == MaskDistribution::automatic) {
    std::vector<Entry> joint;
    joint.reserve(static_cast<size_t>(all));
    int64_t reserved = 0;
    for (auto& entries : layers) {
      // The best weight of each layer goes first, so that none is emptied.
      if (!options.allow_empty && !entries.empty()) {
        const auto best = std::min_element(entries.begin(), entries.end());
        keep[static_cast<size_t>(best->place)] = 1;
        ++reserved;
        std::swap(*best, entries.back());
        entries.pop_back();
      }
      joint.insert(joint.end(), entries.begin(), entries.end());
    }
    take_best(joint, std::clamp<int64_t>(budget - reserved, 0, static_cast<int64_t>(joint.size())));
  } else {
    const auto densities = options.distribution == MaskDistribution::erk
                               ? erk_densities(shapes, sparsity)
                               : std::vector<double>(layers.size(), 1 - sparsity);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto size = static_cast<int64_t>(layers[i].size());
      take_best(layers[i],
                std::max<int64_t>(kept_count(1 - densities[i], size), options.allow_empty || size == 0 ? 0 : 1));
    }
  }
  int64_t place = 0;
  for (const auto& [name, score] : scores) {
    masks[name] = at::from_blob(keep.data() + place, score.sizes(), at::kByte).to(at::kBool);
    place += score.numel();
  }
  return masks;
}

TensorMap magnitudes(const TensorMap& weights, const std::vector<std::string>& names) {
  TensorMap result;
  for (const auto& name : names) result[name] = weights.at(name).detach().abs();
  return result;
}

double SparsityReport::over_masked() const {
  return masked_total == 0 ? 0 : 1 - static_cast<double>(masked_kept) / static_cast<double>(masked_total);
}
double SparsityReport::over_parameters() const {
  return parameters == 0 ? 0 : static_cast<double>(masked_total - masked_kept) / static_cast<double>(parameters);
}
std::vector<std::string> SparsityReport::empty() const {
  std::vector<std::string> names;
  for (const auto& layer : layers)
    if (layer.kept == 0) names.push_back(layer.name);
  return names;
}

SparsityReport sparsity_of(const Graph& graph, const TensorMap& masks) {
  SparsityReport report;
  for (const auto& [name, tensor] : graph.tensors)
    if (at::isFloatingType(tensor.scalar_type()) && tensor.dim() > 0) report.parameters += tensor.numel();
  for (const auto& [name, mask] : masks) {
    report.layers.push_back({name, mask.numel(), mask.sum().item<int64_t>()});
    report.masked_total += report.layers.back().total;
    report.masked_kept += report.layers.back().kept;
  }
  return report;
}

Graph masked(const Graph& graph, const TensorMap& masks) {
  Graph result = graph;
  for (const auto& [name, mask] : masks)
    result.tensors[name] = at::where(mask, graph.tensor(name), at::zeros({}, graph.tensor(name).options()));
  return result;
}

TensorMap nonzero_masks(const Graph& graph, const std::vector<std::string>& names) {
  TensorMap masks;
  for (const auto& name : names) masks[name] = graph.tensor(name).ne(0);
  return masks;
}

NamedTensors packed_masks(const MaskFile& file) {
  NamedTensors content;
  nlohmann::json shapes;
  for (const auto& [name, mask] : file.masks) {
    const at::Tensor flat = mask.to(at::kByte).contiguous().flatten();
    at::Tensor bits = at::zeros({(flat.numel() + 7) / 8}, at::kByte);
    for (int64_t i = 0; i < flat.numel(); ++i)
      bits.data_ptr<uint8_t>()[i / 8] |= static_cast<uint8_t>((flat.data_ptr<uint8_t>()[i] != 0 ? 1 : 0) << (i % 8));
    content.tensors.emplace_back(name, bits);
    shapes[name] = mask.sizes().vec();
  }
  content.metadata = {{"pare.masks", shapes.dump()}, {"pare.recipe", file.recipe}};
  return content;
}

void write_masks(const std::filesystem::path& path, const MaskFile& file) {
  write_safetensors(path, packed_masks(file));
}

MaskFile read_masks(const std::filesystem::path& path) {
  const NamedTensors content = read_safetensors(path);
  const auto found = content.metadata.find("pare.masks");
  if (found == content.metadata.end()) throw Error(ErrorKind::format, path.string(), "is not a file of masks");
  MaskFile file;
  if (const auto recipe = content.metadata.find("pare.recipe"); recipe != content.metadata.end())
    file.recipe = recipe->second;
  try {
    const auto shapes = nlohmann::json::parse(found->second);
    for (const auto& [name, bits] : content.tensors) {
      const auto shape = shapes.at(name).get<std::vector<int64_t>>();
      int64_t count = 1;
      for (const int64_t extent : shape) {
        if (extent < 0 || (extent > 0 && count > (bits.numel() * 8) / extent + 1))
          throw Error(ErrorKind::format, path.string(), "the mask {} has a shape that its bits do not fill", name);
        count *= extent;
      }
      if (bits.scalar_type() != at::kByte || bits.numel() != (count + 7) / 8)
        throw Error(ErrorKind::format, path.string(), "the mask {} has {} bytes for {} weights", name, bits.numel(),
                    count);
      const at::Tensor dense = bits.contiguous();
      at::Tensor mask = at::empty(shape, at::kBool);
      for (int64_t i = 0; i < count; ++i)
        mask.data_ptr<bool>()[i] = (dense.data_ptr<uint8_t>()[i / 8] >> (i % 8) & 1) != 0;
      file.masks[name] = mask;
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::format, path.string(), "has shapes that cannot be read: {}", error.what());
  }
  return file;
}

}  // namespace pare
