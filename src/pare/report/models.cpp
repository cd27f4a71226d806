#include "pare/report/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pare {

namespace {

using nlohmann::json;

class Collector {
 public:
  void add(const Record& record) {
    const json& result = member_at(record.content, "result");
    const std::string command = text_at(record.content, "command");
    for (const auto& file : list(record.content, "files")) {
      const std::string path = text_at(file, "path");
      if (!path.empty()) bytes_[name_of(path)] = number_at(file, "bytes");
    }
    if (command == "train") add_trained(record, result);
    if (member_at(result, "after").is_object()) add_made(record, result);
    for (const auto& entry : list(result, "models")) note(text_at(entry, "model"), entry);
    if (command == "explain") add_compared(record, result);
  }

  std::vector<ModelSummary> models() {
    for (auto& model : models_)
      if (const auto found = bytes_.find(model.file); found != bytes_.end()) model.bytes = found->second;
    return std::move(models_);
  }

 private:
  static std::string name_of(const std::string& path) {
    return std::filesystem::path(path).lexically_normal().string();
  }

  static const json& list(const json& object, const char* key) {
    static const json none = json::array();
    const json& member = member_at(object, key);
    return member.is_array() ? member : none;
  }

  ModelSummary& model(const std::string& path) {
    const std::string name = name_of(path);
    const auto found =
        std::find_if(models_.begin(), models_.end(), [&](const ModelSummary& m) { return m.file == name; });
    if (found != models_.end()) return *found;
    models_.push_back({.file = name});
    return models_.back();
  }

  // Figures of a model, whoever measured them.
  void note(const std::string& path, const json& entry) {
    if (path.empty()) return;
    ModelSummary& known = model(path);
    const auto take = [&](const char* key, double& value) {
      if (const double found = number_at(entry, key); !std::isnan(found)) value = found;
    };
    take("parameters", known.parameters);
    take("macs", known.macs);
    take("median_seconds", known.latency);
    take("cosine", known.similarity);
    take("attribution_similarity", known.similarity);
    const json& metrics = member_at(entry, "metrics");
    for (const char* metric : {"top1", "map"})
      if (const double value = number_at(metrics, metric); !std::isnan(value)) {
        known.metric = metric;
        known.accuracy = value;
      }
    if (const double zero = number_at(entry, "sparsity_all"); zero > 0)
      known.nonzero = std::round(known.parameters * (1 - zero));
  }

  void add_trained(const Record& record, const json& result) {
    const std::string output = text_at(result, "output");
    if (output.empty()) return;
    note(output, result);
    ModelSummary& made = model(output);
    const json& options = member_at(record.content, "options");
    made.from = text_at(options, "model").empty() ? "" : name_of(text_at(options, "model"));
    made.method = made.from.empty() ? "original" : "fine-tuned";
    made.made_by = made.from.empty() ? fmt::format("train, {}", text_at(options, "arch")) : "train, fine-tuned";
  }

  // {"before": {…}, "after": {…}}: a model made of another, or of several.
  void add_made(const Record& record, const json& result) {
    const json& options = member_at(record.content, "options");
    const json& before = member_at(result, "before");
    const json& after = member_at(result, "after");
    std::string from = text_at(before, "model");
    if (from.empty()) from = text_at(options, "model");
    note(from, before);
    for (const auto& parent : list(before, "models")) {
      note(text_at(parent, "model"), parent);
      if (from.empty()) from = text_at(parent, "model");
    }
    if (list(before, "models").size() > 1 && member_at(before, "metrics").is_object()) add_ensemble(before);
    std::string output = text_at(after, "model");
    if (output.empty()) output = text_at(result, "output");
    if (output.empty()) return;
    note(output, after);
    ModelSummary& made = model(output);
    made.from = from.empty() ? "" : name_of(from);
    made.method = method_of(record);
    made.made_by = fmt::format("{}, {}", text_at(record.content, "command"), made.method);
  }

  void add_ensemble(const json& before) {
    constexpr const char* name = "their predictions averaged";
    note(name, before);
    model(name).method = kEnsemble;
  }

  // The mean over some images of how alike two models' maps are, unless it was measured on more when one was made.
  void add_compared(const Record& record, const json& result) {
    std::map<std::string, std::vector<double>> cosines;
    for (const auto& entry : list(result, "explanations"))
      for (const auto& compared : list(entry, "compared"))
        if (const double cosine = number_at(compared, "cosine"); !std::isnan(cosine))
          cosines[text_at(compared, "model")].push_back(cosine);
    for (const auto& [other, values] : cosines)
      if (const auto count = static_cast<double>(values.size()); std::isnan(model(other).similarity))
        note(other, {{"cosine", std::accumulate(values.begin(), values.end(), 0.0) / count}});
  }

  std::vector<ModelSummary> models_;
  std::map<std::string, double> bytes_;
};

}  // namespace

std::string method_of(const Record& record) {
  const auto& options = member_at(record.content, "options");
  std::string method = text_at(options, "compensate");
  if (method == "none") method = "pruned only";
  if (method.empty()) method = text_at(options, "method");
  const std::string match = text_at(options, "match");
  if (method.empty())
    method = match == "none" ? "soft targets" : match;
  else if (!match.empty() && match != "none")
    method += " + " + match;
  if (method.empty()) method = text_at(record.content, "command");
  if (const std::string repair = text_at(options, "repair"); !repair.empty() && repair != "none")
    method += " + " + repair;
  if (number_at(options, "finetune") > 0) method += " + fine-tuning";
  return method;
}

std::vector<ModelSummary> summarize(const std::vector<Record>& records) {
  Collector collector;
  for (const auto& record : records) collector.add(record);
  return collector.models();
}

}  // namespace pare
