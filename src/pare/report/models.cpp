#include "pare/report/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "pare/report/page_format.h"

namespace pare {

namespace {

using nlohmann::json;

// The part of the data that the accuracies of a record were measured on; empty where it does not say. What trains takes
// the test images, and where the data is not divided those that it learns from.
std::string split_of(const Record& record) {
  std::string said = text_at(record.result, "split");
  if (said == "all" && !record.training.empty()) return "train";
  const std::string command = record.command;
  if (!said.empty() || (command != "prune" && command != "fuse")) return said;
  return text_at(record.options, "split");
}

// How many images the accuracies of a record were measured on; all of a split are more than any number, and those a
// network learns from count for nothing.
double samples_of(const Record& record) {
  constexpr double all = std::numeric_limits<double>::infinity();
  if (split_of(record) == "train") return 0;
  const std::string command = record.command;
  // What trains is limited in the images it learns from, not in those it is tested on.
  if (command == "train" || command == "distill" || command == "sparsify") return all;
  const double limit = number_at(record.options, "limit");
  if (limit == 0) return all;
  // The samples of other commands are images to learn from.
  const bool counts = command == "eval" || command == "localize";
  const double counted = counts ? number_at(record.result, "samples") : limit;
  return counted > 0 ? counted : limit > 0 ? limit : all;
}

// The last `parts` parts of a path.
std::string tail_of(const std::string& path, size_t parts) {
  size_t begin = path.size();
  for (size_t i = 0; i < parts; ++i) {
    const size_t slash = begin == 0 ? std::string::npos : path.rfind('/', begin - 1);
    if (slash == std::string::npos) return path;
    begin = slash;
  }
  return begin + 1 < path.size() ? path.substr(begin + 1) : path;
}

void give_names(std::vector<ModelSummary>& models) {
  std::vector<size_t> parts(models.size(), 1);
  for (bool again = true; again;) {
    std::map<std::string, size_t> times;
    for (size_t i = 0; i < models.size(); ++i) {
      models[i].name = tail_of(models[i].file, parts[i]);
      ++times[models[i].name];
    }
    again = false;
    for (size_t i = 0; i < models.size(); ++i)
      if (times[models[i].name] > 1 && models[i].name != models[i].file) {
        ++parts[i];
        again = true;
      }
  }
}

class Collector {
 public:
  explicit Collector(std::string setting) : setting_(std::move(setting)) {}

  void add(const Record& record) {
    record_ = &record;
    ++number_;
    const json& result = record.result;
    const std::string command = record.command;
    for (const auto& file : record.files) bytes_[key(file.path)] = static_cast<double>(file.bytes);
    if (command == "train") add_trained(result);
    if (command == "convert") add_converted(result);
    if (member_at(result, "after").is_object()) add_made(result);
    std::string first;
    std::vector<std::string> voters;
    for (const auto& entry : list_at(result, "models")) {
      std::string path = text_at(entry, "model");
      const bool votes = command == "eval" && path == kEnsemble;
      if (votes) path = ensemble_of(first, voters);
      note(path, entry);
      if (first.empty()) first = path;
      voters.push_back(file_name_of(path));
      if (path != first && has_usual_maps(result))
        note_similarity(path, first, number_at(entry, "cosine"), number_at(result, "samples"));
      if (votes) model(path).method = kEnsemble;
    }
    if (command == "explain" && has_usual_maps(result)) add_compared(result);
  }

  std::vector<ModelSummary> models() {
    for (auto& model : models_)
      if (const auto found = bytes_.find(model.file); found != bytes_.end()) model.bytes = found->second;
    give_names(models_);
    return std::move(models_);
  }

 private:
  std::string key(const std::string& path) const { return model_key(*record_, path); }
  std::string option(const char* name) const { return text_at(record_->options, name); }

  // Similarities by other maps are other figures.
  static bool has_usual_maps(const json& result) {
    const std::string method = text_at(result, "method");
    return method.empty() || method == "gradcam";
  }

  // What stands for the models of an evaluation that vote together, beside the first of them.
  static std::string ensemble_of(const std::string& first, const std::vector<std::string>& voters) {
    const std::filesystem::path directory = std::filesystem::path(first).parent_path();
    return (directory / fmt::format("{} of {}", kEnsemble, fmt::join(voters, ", "))).string();
  }

  // A model that is there already.
  ModelSummary* known(const std::string& path) {
    const std::string file = key(path);
    const auto found =
        std::find_if(models_.begin(), models_.end(), [&](const ModelSummary& m) { return m.file == file; });
    return found == models_.end() ? nullptr : &*found;
  }

  ModelSummary& model(const std::string& path) {
    if (ModelSummary* found = known(path)) return *found;
    models_.push_back({.file = key(path)});
    return models_.back();
  }

  // Figures of a model, whoever measured them.
  void note(const std::string& path, const json& entry) {
    if (path.empty()) return;
    ModelSummary& summary = model(path);
    const auto take_whole = [](const std::optional<int64_t>& found, double& value) {
      if (found) value = static_cast<double>(*found);
    };
    const ModelEntry said = model_entry_from(entry);
    take_whole(said.parameters, summary.parameters);
    take_whole(said.bytes, summary.weights);
    if (said.macs) note_macs(summary, static_cast<double>(*said.macs), said.macs_at);
    // A model with a fixed batch may have been measured in another one.
    const double batch = number_at(entry, "batch");
    const bool same_batch = std::isnan(batch) || batch == number_at(record_->result, "batch");
    if (same_batch) note_timing(summary, entry);
    const json& drift = member_at(record_->result, "attribution_drift");
    take_similarity(summary, number_at(entry, "attribution_similarity"), number_at(drift, "images"));
    note_accuracy(summary, said.metrics);
    if (const double zero = number_at(entry, "sparsity_all"); zero > 0)
      summary.nonzero = std::round(summary.parameters * (1 - zero));
  }

  // A record that does not say at which shapes has only its own counts to be compared with.
  void note_macs(ModelSummary& summary, double macs, const std::string& at) const {
    summary.macs = macs;
    summary.macs_at = at.empty() ? fmt::format("record {}", number_) : at;
    summary.macs_found[summary.macs_at] = macs;
  }

  void note_timing(ModelSummary& summary, const json& entry) const {
    const std::string setting = bench_setting(*record_);
    if (setting.empty()) return;
    const ModelTiming timing{.bench = number_,
                             .latency = number_at(entry, "median_seconds"),
                             .peer_latency = number_at(member_at(entry, "onnxruntime"), "median_seconds")};
    summary.timings.push_back(timing);
    if (setting != setting_) return;
    if (!std::isnan(timing.latency)) summary.latency = timing.latency;
    if (!std::isnan(timing.peer_latency)) summary.peer_latency = timing.peer_latency;
  }

  // Unless it was measured on more images.
  static void take_similarity(ModelSummary& summary, double cosine, double images) {
    if (std::isnan(cosine) || images < summary.compared) return;
    summary.similarity = cosine;
    summary.compared = std::isnan(images) ? 0 : images;
  }

  // Similarity is with the original's maps: nothing where the other model is not what this one was made of.
  void note_similarity(const std::string& path, const std::string& other, double cosine, double images) {
    if (path.empty() || other.empty() || std::isnan(cosine)) return;
    ModelSummary& summary = model(path);
    const ModelSummary* at = &summary;
    for (size_t step = 0; step < models_.size() && at != nullptr && at->from != key(other); ++step) {
      const auto next = std::find_if(models_.begin(), models_.end(),
                                     [&](const ModelSummary& m) { return !at->from.empty() && m.file == at->from; });
      at = next == models_.end() ? nullptr : &*next;
    }
    if (at != nullptr && at->from == key(other)) take_similarity(summary, cosine, images);
  }

  void note_accuracy(ModelSummary& summary, const MetricList& metrics) const {
    const double samples = samples_of(*record_);
    const std::string data = option("data");
    const bool other = summary.samples > 0 && !summary.data.empty() && data != summary.data;
    if (samples < summary.samples || other) return;
    for (const char* metric : {"top1", "map"})
      if (const double value = metric_of(metrics, metric); !std::isnan(value)) {
        summary.metric = metric;
        summary.accuracy = value;
        summary.samples = samples;
        summary.data = data;
        summary.split = split_of(*record_);
      }
  }

  // Figures of a model that the record's command made: older ones are of another file.
  ModelSummary& note_made(const std::string& output, const json& entry) {
    model(output) = {.file = key(output)};
    note(output, entry);
    return model(output);
  }

  void add_trained(const json& result) {
    const std::string output = text_at(result, "output");
    if (output.empty()) return;
    ModelSummary& made = note_made(output, result);
    made.from = option("model").empty() ? "" : key(option("model"));
    made.method = made.from.empty() ? "original" : "fine-tuned";
    made.made_by = made.from.empty() ? fmt::format("train, {}", option("arch")) : "train, fine-tuned";
  }

  // The same network as the file that was read; where that is not on the page itself, this one is where others begin.
  void add_converted(const json& result) {
    const std::string output = text_at(result, "output");
    if (output.empty()) return;
    const std::string source = option("model");
    const ModelSummary* read = source.empty() ? nullptr : known(source);
    const std::string from = read != nullptr ? read->file : "";
    const std::string method = read != nullptr ? read->method : "original";
    ModelSummary& made = note_made(output, result);
    made.from = from;
    made.method = method;
    made.made_by = fmt::format("convert, {}", source.empty() ? option("arch") : file_name_of(source));
  }

  // {"before": {…}, "after": {…}}: a model made of another, or of several.
  void add_made(const json& result) {
    const json& before = member_at(result, "before");
    const json& after = member_at(result, "after");
    std::string from = text_at(before, "model");
    if (from.empty()) from = option("model");
    note(from, before);
    for (const auto& parent : list_at(before, "models")) {
      note(text_at(parent, "model"), parent);
      if (from.empty()) from = text_at(parent, "model");
    }
    std::string output = text_at(after, "model");
    if (output.empty()) output = text_at(result, "output");
    if (output.empty()) return;
    if (list_at(before, "models").size() > 1 && member_at(before, "metrics").is_object()) add_ensemble(output, before);
    ModelSummary& made = note_made(output, after);
    made.from = from.empty() ? "" : key(from);
    made.method = method_of(*record_);
    const std::string command = record_->command;
    made.made_by = made.method == command ? command : fmt::format("{}, {}", command, made.method);
  }

  // The models that `output` was fused of, voting together.
  void add_ensemble(const std::string& output, const json& before) {
    note_made(output + ", its models' predictions averaged", before).method = kEnsemble;
  }

  // The mean over some images of how alike two models' maps are.
  void add_compared(const json& result) {
    std::map<std::string, std::vector<double>> cosines;
    for (const auto& entry : list_at(result, "explanations"))
      for (const auto& compared : list_at(entry, "compared"))
        if (const double cosine = number_at(compared, "cosine"); !std::isnan(cosine))
          cosines[text_at(compared, "model")].push_back(cosine);
    for (const auto& [other, values] : cosines) {
      const auto count = static_cast<double>(values.size());
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
      note_similarity(other, text_at(result, "model"), mean, count);
    }
  }

  const Record* record_ = nullptr;  // that is being added
  size_t number_ = 0;               // of it, from 1 on
  std::string setting_;             // of the latencies that are taken
  std::vector<ModelSummary> models_;
  std::map<std::string, double> bytes_;
};

}  // namespace

double ModelSummary::macs_beside(const ModelSummary& other) const {
  const auto found = macs_found.find(other.macs_at);
  return found == macs_found.end() ? kUnknown : found->second;
}

std::string method_of(const Record& record) {
  const auto& options = record.options;
  std::string method = text_at(options, "compensate");
  if (method == "auto") method = text_at(member_at(record.result, "method"), "compensate");
  if (method == "none") method = "pruned only";
  if (method == "most-sim" && member_at(options, "as-published") == true) method += " as published";
  if (member_at(options, "empty") == true) method = "empty channels";
  if (method.empty()) method = text_at(options, "method");
  const std::string match = text_at(options, "match");
  if (method.empty())
    method = match == "none" ? "soft targets" : match;
  else if (!match.empty() && match != "none")
    method += " + " + match;
  if (method.empty()) method = record.command;
  if (const std::string repair = text_at(options, "repair"); !repair.empty() && repair != "none")
    method += " + " + repair;
  if (number_at(options, "finetune") > 0) method += " + fine-tuning";
  return method;
}

std::string model_key(const Record& record, const std::string& path) {
  const std::filesystem::path directory = record.directory;
  return (directory / path).lexically_normal().string();
}

std::string bench_setting(const Record& record) {
  if (record.command != "bench") return "";
  const json& result = record.result;
  const double threads = number_at(result, "threads");
  const std::string& cpu = record.machine.cpu;
  return fmt::format("a batch of {} on {} {}{}{}", grouped_figure(number_at(result, "batch")), grouped_figure(threads),
                     threads == 1 ? "thread" : "threads", cpu.empty() ? "" : ", ", cpu);
}

std::string latency_setting(const std::vector<Record>& records) {
  std::string latest;
  for (const auto& record : records)
    if (const std::string setting = bench_setting(record); !setting.empty()) latest = setting;
  return latest;
}

std::vector<ModelSummary> summarize(const std::vector<Record>& records) {
  Collector collector(latency_setting(records));
  for (const auto& record : records) collector.add(record);
  return collector.models();
}

}  // namespace pare
