#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pare/report/models.h"

namespace pare {

namespace {

std::string speed_text(const ModelTiming& first, const ModelTiming& model) {
  const double peer = first.peer_latency / model.peer_latency;
  const double factor = std::isnan(peer) ? first.latency / model.latency : peer;
  if (std::isnan(factor)) return "";
  const char* where = std::isnan(peer) ? "here" : "in ONNX Runtime";
  return factor < 1 ? fmt::format("{:.2f} times the time {}", 1 / factor, where)
                    : fmt::format("{:.2f} times as fast {}", factor, where);
}

// By the newest bench that has both.
std::string speed_text(const ModelSummary& first, const ModelSummary& model) {
  for (auto timing = model.timings.rbegin(); timing != model.timings.rend(); ++timing) {
    const auto other = std::ranges::find(first.timings, timing->bench, &ModelTiming::bench);
    if (other == first.timings.end()) continue;
    if (std::string text = speed_text(*other, *timing); !text.empty()) return text;
  }
  return "";
}

std::string size_text(const ModelSummary& first, const ModelSummary& model) {
  const double gone = 1 - model.parameters / first.parameters;
  if (std::isnan(gone) || gone < 0.005) return "";
  return fmt::format("{:.0f} % fewer parameters", 100 * gone);
}

// Accuracies of other images, or of another number of them, are not compared.
std::string accuracy_text(const ModelSummary& first, const ModelSummary& model) {
  const double lost = 100 * (first.accuracy - model.accuracy);
  const bool same = first.data == model.data && first.split == model.split && first.metric == model.metric &&
                    first.samples == model.samples;
  if (std::isnan(lost) || !same) return "";
  const std::string figures = fmt::format(" ({:.4f}, before {:.4f})", model.accuracy, first.accuracy);
  if (std::abs(lost) < 0.05) return "as accurate as before" + figures;
  return fmt::format("{:.1f} points {}", std::abs(lost), lost > 0 ? "lost" : "gained") + figures;
}

std::string look_text(const ModelSummary& model) {
  if (std::isnan(model.similarity)) return "";
  const char* where = model.similarity >= 0.8   ? "looks at the same places"
                      : model.similarity >= 0.5 ? "looks in part elsewhere"
                                                : "looks elsewhere";
  return fmt::format("{}: {:.2f}", where, model.similarity);
}

std::vector<std::string> parts_of(const ModelSummary& model, const std::vector<ModelSummary>& models) {
  const ModelSummary* first = origin_of(model, models);
  std::vector<std::string> parts;
  if (first == &model) return parts;
  for (const auto& text :
       {speed_text(*first, model), size_text(*first, model), accuracy_text(*first, model), look_text(model)})
    if (!text.empty()) parts.push_back(text);
  return parts;
}

}  // namespace

const ModelSummary* origin_of(const ModelSummary& model, const std::vector<ModelSummary>& models) {
  const ModelSummary* at = &model;
  for (size_t step = 0; step < models.size() && !at->from.empty(); ++step) {
    const auto found = std::ranges::find(models, at->from, &ModelSummary::file);
    if (found == models.end() || &*found == at) break;
    at = &*found;
  }
  return at;
}

std::string headline(const std::vector<ModelSummary>& models) {
  std::vector<std::string> most;
  const ModelSummary* told = nullptr;
  for (const auto& model : models)
    if (auto parts = parts_of(model, models); !parts.empty() && parts.size() >= most.size()) {
      most = std::move(parts);
      told = &model;
    }
  return told == nullptr ? "" : fmt::format("{}: {}.", told->name, fmt::join(most, ", "));
}

}  // namespace pare
