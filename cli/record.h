// The record that a command leaves in its run directory (pare/report/record.h): what was asked, on what, and what came
// out. `pare report` makes a page of records.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "command.h"

namespace pare::cli {

struct RecordClock {
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
};

// A directory that cannot be written to is said, not an error: the command itself is done. `error`: why it
// failed, where it did.
void write_record(Session& session, const std::vector<std::string>& words, const RecordClock& clock,
                  const nlohmann::json& result, const std::string& error = "");

}  // namespace pare::cli
