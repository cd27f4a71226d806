// What runs have found, as one page: tables, curves, heat maps. It needs nothing beside it: no script, no network.
#pragma once

#include <string>
#include <vector>

#include "pare/observer.h"

namespace pare {

struct ReportOptions {
  std::string title = "pare report";
};

// HTML of run directories, directories of them, or records. A record that cannot be read is left out, with a note.
std::string report(const std::vector<std::string>& runs, const ReportOptions& options = {},
                   Observer& observer = unobserved());

}  // namespace pare
