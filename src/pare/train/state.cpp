#include "pare/train/state.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/safetensors.h"

namespace pare {

using nlohmann::json;

json to_json(const EpochReport& report) {
  json object = {{"epoch", report.epoch}, {"step", report.step},       {"loss", report.loss},
                 {"rate", report.rate},   {"seconds", report.seconds}, {"images_per_second", report.images_per_second}};
  if (report.penalty != 0) object["penalty"] = report.penalty;
  if (!std::isnan(report.accuracy)) object["accuracy"] = report.accuracy;
  if (!std::isnan(report.validation)) object["validation"] = report.validation;
  return object;
}

namespace {

struct Part {
  const char* name;
  TensorMap TrainState::*tensors;
};

constexpr std::array kParts = {
    Part{"raw", &TrainState::raw},
    Part{"statistics", &TrainState::statistics},
    Part{"optimizer", &TrainState::optimizer},
    Part{"average", &TrainState::average},
    Part{"best", &TrainState::best},
    Part{"method", &TrainState::method},
};

// Doubles as bits: a resumed run has exactly the sums of an uninterrupted one.
int64_t bits(double value) {
  int64_t result = 0;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

double from_bits(const json& value) {
  const auto integer = value.get<int64_t>();
  double result = 0;
  std::memcpy(&result, &integer, sizeof result);
  return result;
}

json report_json(const EpochReport& report) {
  return {report.epoch,         report.step,           bits(report.loss),
          bits(report.penalty), bits(report.accuracy), bits(report.validation),
          bits(report.rate),    bits(report.seconds),  bits(report.images_per_second)};
}

EpochReport report_from(const json& list) {
  return {.epoch = list.at(0),
          .step = list.at(1),
          .loss = from_bits(list.at(2)),
          .penalty = from_bits(list.at(3)),
          .accuracy = from_bits(list.at(4)),
          .validation = from_bits(list.at(5)),
          .rate = from_bits(list.at(6)),
          .seconds = from_bits(list.at(7)),
          .images_per_second = from_bits(list.at(8))};
}

json scalars_of(const TrainState& state) {
  json history = json::array();
  for (const auto& report : state.history) history.push_back(report_json(report));
  const auto& sums = state.sums;
  return {{"epoch", state.position.epoch},
          {"batch", state.position.batch},
          {"step", state.step},
          {"sums", {bits(sums.loss), bits(sums.penalty), sums.samples, sums.correct, bits(sums.seconds)}},
          {"best_metric", bits(state.best_metric)},
          {"best_epoch", state.best_epoch},
          {"finished", state.finished},
          {"history", history}};
}

void set_scalars(TrainState& state, const json& scalars) {
  state.position = {scalars.at("epoch"), scalars.at("batch")};
  state.step = scalars.at("step");
  const auto& sums = scalars.at("sums");
  state.sums = {from_bits(sums.at(0)), from_bits(sums.at(1)), sums.at(2), sums.at(3), from_bits(sums.at(4))};
  state.best_metric = from_bits(scalars.at("best_metric"));
  state.best_epoch = scalars.at("best_epoch");
  state.finished = scalars.at("finished");
  for (const auto& list : scalars.at("history")) state.history.push_back(report_from(list));
}

// Of the names, shapes and bytes of all tensors, and of the scalars.
std::string digest(const NamedTensors& content, const std::string& scalars) {
  std::string summary = scalars;
  for (const auto& [name, tensor] : content.tensors) {
    const at::Tensor dense = tensor.contiguous();
    summary += fmt::format("\n{} {} {} ", name, c10::toString(dense.scalar_type()), fmt::join(dense.sizes(), "x"));
    summary += sha256({static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()});
  }
  return sha256(std::as_bytes(std::span(summary)));
}

}  // namespace

TrainState as_start(TrainState state) {
  const TrainState fresh;
  state.best.clear();
  state.best_metric = fresh.best_metric;
  state.best_epoch = fresh.best_epoch;
  state.history.clear();
  state.sums = {};
  state.finished = false;
  return state;
}

void write_train_state(const std::filesystem::path& path, const TrainState& state, const std::string& run) {
  NamedTensors content;
  for (const auto& part : kParts)
    for (const auto& [name, tensor] : state.*part.tensors)
      content.tensors.emplace_back(fmt::format("{}/{}", part.name, name), tensor.detach());
  const std::string scalars = scalars_of(state).dump();
  content.metadata = {{"pare.state", scalars}, {"pare.run", run}, {"pare.digest", digest(content, scalars)}};
  write_safetensors(path, content);
}

TrainState read_train_state(const std::filesystem::path& path, const std::string& run) {
  const NamedTensors content = read_safetensors(path);
  const auto entry = [&](const char* key) {
    const auto found = content.metadata.find(key);
    if (found == content.metadata.end())
      throw Error(ErrorKind::format, path.string(), "is not the state of a training run: {} is missing", key);
    return found->second;
  };
  const std::string scalars = entry("pare.state");
  if (entry("pare.digest") != digest(content, scalars))
    throw Error(ErrorKind::format, path.string(), "is damaged: its content does not have the digest that it states");
  if (entry("pare.run") != run)
    throw Error(ErrorKind::format, path.string(), "is the state of run {}, expected {}", entry("pare.run"), run);
  TrainState state;
  try {
    set_scalars(state, json::parse(scalars));
  } catch (const json::exception& error) {
    throw Error(ErrorKind::format, path.string(), "has a state that cannot be read: {}", error.what());
  }
  for (const auto& [key, tensor] : content.tensors) {
    const size_t slash = key.find('/');
    for (const auto& part : kParts)
      if (key.substr(0, slash) == part.name) (state.*part.tensors)[key.substr(slash + 1)] = tensor.clone();
  }
  return state;
}

}  // namespace pare
