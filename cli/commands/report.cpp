#include "pare/report/page.h"

#include <ostream>

#include "command.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/models.h"

namespace pare::cli {

namespace {

class Report : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "One page of what runs have found: tables, curves, heat maps"; }
  bool recorded() const override { return false; }

  void describe(OptionVisitor& options) override {
    options.positional("run", runs_, "run directories, directories of them, or records");
    options.field("output", output_, "FILE.html to write");
    options.field("plots", plots_, "also write accuracy against size as DIR/N.svg");
    options.field("title", title_, "heading of the page");
  }

  nlohmann::json run(Session& session) override {
    if (output_.empty()) throw Error(ErrorKind::usage, "-o", "name the page to write");
    check_writable(output_, session.common.force);
    const auto records =
        read_records(runs_, [&](const Error& error) { session.say("note: left out: {}\n", error.what()); });
    const auto summary = summarize(records);
    const size_t models = summary.size();
    const auto plots = size_plots(summary);
    check_plots(plots.size(), session.common.force);
    const std::string page = html_page(records, {.title = title_});
    write_file_atomically(output_, [&](std::ostream& out) { out << page; });
    write_plots(plots);
    session.print("{} written: {} runs, {} models, {} kB\n", output_, records.size(), models, page.size() / 1000);
    return {{"output", output_}, {"records", records.size()}, {"models", models}, {"bytes", page.size()}};
  }

 private:
  std::filesystem::path plot_file(size_t i) const {
    return std::filesystem::path(plots_) / fmt::format("{}.svg", i + 1);
  }

  // Makes their directory.
  void check_plots(size_t count, bool force) const {
    if (plots_.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(plots_, failed);
    if (failed) throw Error(ErrorKind::file, plots_, "cannot be made: {}", failed.message());
    for (size_t i = 0; i < count; ++i) check_writable(plot_file(i), force);
  }

  void write_plots(const std::vector<LinePlot>& plots) const {
    if (plots_.empty()) return;
    for (size_t i = 0; i < plots.size(); ++i)
      write_file_atomically(plot_file(i), [&](std::ostream& out) { out << to_svg(plots[i]); });
  }

  std::vector<std::string> runs_;
  std::string output_;
  std::string plots_;
  std::string title_ = "pare report";
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace pare::cli
