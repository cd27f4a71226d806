// Metrics as commands write and say them.
#pragma once

#include <nlohmann/json.hpp>

#include "command.h"
#include "pare/workflow/evaluate.h"
#include "pare/workflow/maps.h"

namespace pare::cli {

// {"top1": 0.9, …}
inline nlohmann::json metrics_json(const MetricList& metrics) {
  nlohmann::json result;
  for (const auto& [name, value] : metrics) result[name] = value;
  return result;
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

}  // namespace pare::cli
