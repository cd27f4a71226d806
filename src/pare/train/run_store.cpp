#include "pare/train/run_store.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "pare/core/file.h"
#include "pare/core/options.h"
#include "pare/error.h"

namespace pare {

namespace {

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

std::string hash_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return sha256({static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()});
}

std::string hash_with_type(const at::Tensor& tensor) {
  return fmt::format("{} {} {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"), hash_of(tensor));
}

// Lists with the length of each word, so that no two of them read alike.
struct AttributeText {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return fmt::format("{} {}", value.size(), value); }
  std::string operator()(const at::Tensor& value) const { return hash_with_type(value); }
  std::string operator()(const OpaqueAttribute& value) const {
    return fmt::format("{} {}", value.type, hash_of(value.bytes));
  }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text;
    for (const T& value : values) text += (*this)(value) + ",";
    return text;
  }
};

std::string text_of(const Attribute& attribute) { return std::visit(AttributeText{}, attribute); }

}  // namespace

RunDirectory open_run(const std::filesystem::path& runs, const std::string& kind, const nlohmann::json& definition) {
  RunDirectory run;
  nlohmann::json numbered = definition;
  numbered["format"] = kRunFormat;
  const std::string text = json_text(numbered);
  run.hash = hash_of(kind + text);
  run.path = runs / fmt::format("{}-{}", kind, run.hash.substr(0, 12));
  std::error_code failed;
  std::filesystem::create_directories(run.path, failed);
  if (failed)
    throw Error(ErrorKind::file, run.path.string(), "the run's directory cannot be made: {}", failed.message());
  write_file_atomically(run.path / "definition.json",
                        [&](std::ostream& out) { out << json_text(numbered, 2) << "\n"; });
  return run;
}

std::string fingerprint(const Graph& graph) {
  std::string text = graph.name;
  for (const auto& node : graph.nodes) {
    text +=
        fmt::format("\n{} {} {} {}", node.domain, node.op, fmt::join(node.inputs, ","), fmt::join(node.outputs, ","));
    for (const auto& [name, value] : node.attributes)
      text += fmt::format(" {}={}:{}", name, value.index(), text_of(value));
  }
  return hash_of(text + fingerprint(graph.tensors));
}

std::string fingerprint(const TensorMap& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) text += fmt::format("\n{} {}", name, hash_with_type(tensor));
  return hash_of(text);
}

std::string fingerprint(const TrainState& start) {
  std::string text = fmt::format("{} {} {}", start.step, start.position.epoch, start.position.batch);
  for (const TensorMap* tensors : {&start.raw, &start.statistics, &start.optimizer, &start.average})
    text += fingerprint(*tensors);
  return hash_of(text);
}

nlohmann::json fingerprint(const Dataset& data) {
  return {{"name", data.name},
          {"split", data.split},
          {"images", fmt::format("{}", fmt::join(data.images.sizes(), "x"))},
          {"pixels", hash_of(data.images)},
          {"labels", hash_of(data.labels)},
          {"mean", data.mean},
          {"std", data.std}};
}

void write_training_logs(const RunDirectory& run, const std::vector<EpochReport>& history) {
  write_file_atomically(run.path / "log.jsonl", [&](std::ostream& out) {
    for (const auto& report : history) out << to_json(report).dump() << "\n";
  });
  const auto number = [](double value) { return std::isnan(value) ? std::string() : fmt::format("{}", value); };
  write_file_atomically(run.path / "log.csv", [&](std::ostream& out) {
    out << "epoch,step,loss,penalty,accuracy,validation,rate,seconds,images_per_second\n";
    for (const auto& r : history)
      out << fmt::format("{},{},{},{},{},{},{},{},{}\n", r.epoch, r.step, r.loss, r.penalty, number(r.accuracy),
                         number(r.validation), r.rate, r.seconds, r.images_per_second);
  });
}

}  // namespace pare
