#include "pare/workflow/data_options.h"

#include <nlohmann/json.hpp>

#include "pare/core/error.h"

namespace pare {

void DataChoice::describe(OptionVisitor& options) {
  options.field("data", data, "fashion-mnist, mnist, cifar10, cifar100, scenes, NAME:DIR, folder:DIR or voc:DIR");
  options.field("split", split, "part of the data; segmentation: the images of voc:DIR that have masks",
                {"train", "test", "segmentation"});
  options.field("limit", limit, "only the first so many images (0: all; of scenes 12,000 train, 1,000 test)");
  options.field("mean", mean, "per channel, on the scale 0 to 1; default: the model's, else the data set's");
  options.field("std", std, "likewise");
  options.field("size", size, "folder, voc: resize images to SIZE x SIZE (0: as the model takes them)");
  options.field("data-seed", data_seed, "scenes: another seed, other scenes");
}

std::vector<double> stored_values(const Graph& model, const std::string& key) {
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<double> values;
  for (const auto& value : json.is_array() ? json : nlohmann::json::array())
    if (value.is_number()) values.push_back(value.get<double>());
  return values;
}

Dataset DataChoice::load(const Graph& model) const {
  if (data.empty())
    throw Error(ErrorKind::usage, "--data",
                "name the data: fashion-mnist, mnist, cifar10, cifar100, scenes, folder:DIR or voc:DIR");
  if (limit < 0) throw Error(ErrorKind::usage, "--limit", "expected 0 or more, found {}", limit);
  DataOptions options{.data = data,
                      .split = split,
                      .limit = limit,
                      .mean = mean,
                      .std = std,
                      .size = size,
                      .seed = static_cast<uint64_t>(data_seed)};
  if (mean.empty()) options.mean = stored_values(model, "pare.mean");
  if (std.empty()) options.std = stored_values(model, "pare.std");
  const auto* dims = model.inputs.size() == 1 && model.inputs[0].dims ? &*model.inputs[0].dims : nullptr;
  if (dims != nullptr && dims->size() == 4) {
    if (options.size == 0 && (*dims)[2].fixed()) options.size = (*dims)[2].size;
    if ((*dims)[1].fixed()) options.channels = (*dims)[1].size;
  }
  return load_dataset(options);
}

}  // namespace pare
