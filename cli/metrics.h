// Metrics as commands write and say them.
#pragma once

#include <nlohmann/json.hpp>

#include "command.h"
#include "console.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/record.h"
#include "pare/workflow/maps.h"

namespace pare::cli {

// {"top1": 0.9, …}
inline nlohmann::json metrics_json(const MetricList& metrics) {
  nlohmann::json result;
  for (const auto& [name, value] : metrics) result[name] = value;
  return result;
}

// A model and what was measured of it.
inline nlohmann::json measured_json(const std::string& model, const Measured& measured) {
  return to_json(model_entry(model, measured.cost, measured.metrics));
}

// Groups of channels, and what became of them.
inline nlohmann::json groups_json(const std::vector<PrunedGroup>& groups) {
  auto list = nlohmann::json::array();
  for (PrunedGroup group : groups) {
    group.reason = with_flags(group.reason);
    list.push_back(to_json(group));
  }
  return list;
}

// Notes on maps that say nothing, each with what becomes of them here.
inline void say_empty_maps(const Session& session, const std::string& model, const MapCounts& counts,
                           std::string_view zero_are, std::string_view nan_are) {
  const auto say = [&](int64_t found, std::string_view what, std::string_view become) {
    if (found > 0) session.say("note: {}: {} of {} maps {}: {}\n", model, found, counts.maps, what, become);
  };
  say(counts.zero, "are all zero", zero_are);
  say(counts.nan, "hold a NaN", nan_are);
}

// How much of the score did not arrive in the maps: `error` is its share, over 1 where more than all of it is wrong.
inline void say_relevance(const Session& session, const std::string& model, double error, const std::string& when) {
  constexpr double kMost = 0.05;
  if (error < 1.005)  // all of it, to rounding
    session.print("{}: {:.3g} % of the score is lost {}\n", model, 100 * error, when);
  else  // or not a number
    session.print("{}: relevance is off by {:.3g} times the score {}\n", model, error, when);
  if (!(error <= kMost))
    session.say(
        "note: {}: the maps do not add up to the score: this rule leaves a part to biases, or divides by sums near 0\n",
        model);
}

}  // namespace pare::cli
