#include "pare/evaluate.h"

#include "pare/report/page.h"

namespace pare {

std::string report(const std::vector<std::string>& runs, const ReportOptions& options, Observer& observer) {
  const auto records =
      read_records(runs, [&](const Error& error) { observer.note(std::string("left out: ") + error.what()); });
  return html_page(records, {.title = options.title});
}

}  // namespace pare
