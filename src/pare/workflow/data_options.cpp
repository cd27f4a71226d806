#include "pare/workflow/data_options.h"

#include <nlohmann/json.hpp>

#include "pare/core/error.h"

namespace pare {

void DataChoice::describe(OptionVisitor& options) {
  options.field("data", data, "fashion-mnist, mnist, cifar10, NAME:DIR or folder:DIR");
  options.field("split", split, "part of the data", {"train", "test"});
  options.field("limit", limit, "only the first so many images (0: all)");
  options.field("mean", mean, "per channel, on the scale 0 to 1; default: the model's, else the data set's");
  options.field("std", std, "likewise");
  options.field("size", size, "folder: resize images to SIZE x SIZE (0: as the model takes them)");
}

namespace {

std::vector<double> stored_list(const Graph& model, const std::string& key) {
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<double> values;
  for (const auto& value : json.is_array() ? json : nlohmann::json::array())
    if (value.is_number()) values.push_back(value.get<double>());
  return values;
}

}  // namespace

Dataset DataChoice::load(const Graph& model) const {
  if (data.empty())
    throw Error(ErrorKind::usage, "--data", "name the data: fashion-mnist, mnist, cifar10 or folder:DIR");
  if (limit < 0) throw Error(ErrorKind::usage, "--limit", "expected 0 or more, found {}", limit);
  DataOptions options{.data = data, .split = split, .limit = limit, .mean = mean, .std = std, .size = size};
  if (mean.empty()) options.mean = stored_list(model, "pare.mean");
  if (std.empty()) options.std = stored_list(model, "pare.std");
  const auto* dims = model.inputs.size() == 1 && model.inputs[0].dims ? &*model.inputs[0].dims : nullptr;
  if (dims != nullptr && dims->size() == 4) {
    if (options.size == 0 && (*dims)[2].fixed()) options.size = (*dims)[2].size;
    if ((*dims)[1].fixed()) options.channels = (*dims)[1].size;
  }
  return load_dataset(options);
}

}  // namespace pare
