#include "pare/report/page.h"

#include <cmath>
#include <ostream>

#include "browser.h"
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
  std::vector<Example> examples() const override {
    return {{"one page of all runs", "pare report runs -o report.html --open"},
            {"only the table, here", "pare report runs"}};
  }
  bool recorded() const override { return false; }

  void describe(OptionVisitor& options) override {
    options.positional("run", runs_, "run directories, directories of them, or records");
    options.heading("output");
    options.essential().field("output", output_, "FILE.html to write");
    options.essential().field("open", open_, "show the page in a browser");
    options.field("pdf", pdf_, "FILE.pdf: also print the page into it, by Chromium or Chrome");
    options.field("plots", plots_, "DIR: also write accuracy against size as DIR/N.svg");
    options.essential().field("title", title_, "heading of the page");
    options.only({"open", "pdf", "title"}, {with("output")});
  }

  nlohmann::json run(Session& session) override {
    for (const auto& file : {output_, pdf_})
      if (!file.empty()) check_writable(file, session.common.force);
    const auto records =
        read_records(runs_, [&](const Error& error) { session.say("note: left out: {}\n", error.what()); });
    const auto summary = summarize(records);
    const auto plots = size_plots(summary);
    check_plots(plots.size(), session.common.force);
    print(session, summary);
    nlohmann::json document = {
        {"records", records.size()}, {"models", models_json(summary)}, {"headline", headline(summary)}};
    write_plots(plots);
    if (!output_.empty()) write_page(session, records, document);
    return document;
  }

 private:
  void write_page(const Session& session, const std::vector<Record>& records, nlohmann::json& document) const {
    const std::string page = html_page(records, {.title = title_});
    write_file_atomically(output_, [&](std::ostream& out) { out << page; });
    session.print("{} written: {} runs, {} kB\n", output_, records.size(), page.size() / 1000);
    document["output"] = output_;
    document["bytes"] = page.size();
    if (!pdf_.empty()) {
      print_page(output_, pdf_);
      session.print("{} written\n", pdf_);
      document["pdf"] = pdf_;
    }
    if (open_ && !open_page(output_)) session.say("note: no browser was found to open {} in\n", output_);
  }

  static void print(const Session& session, const std::vector<ModelSummary>& models) {
    if (models.empty()) return;
    Table table(
        {"model", "accuracy", "parameters", "MACs", "weights kB", "ms here", "ms in ONNX Runtime", "maps alike"});
    const auto fixed = [](double value, int digits) {
      return std::isnan(value) ? std::string() : fmt::format("{:.{}f}", value, digits);
    };
    const auto whole = [](double value) {
      return std::isnan(value) ? std::string() : with_commas(static_cast<int64_t>(value));
    };
    for (const auto& model : models)
      table.add({model.name, fixed(model.accuracy, 4), whole(model.parameters), whole(model.macs),
                 fixed(model.weights / 1e3, 0), fixed(1e3 * model.latency, 3), fixed(1e3 * model.peer_latency, 3),
                 fixed(model.similarity, 3)});
    session.print("{}\n", table.text());
    if (const std::string found = headline(models); !found.empty()) session.print("{}\n\n", found);
  }

  static nlohmann::json models_json(const std::vector<ModelSummary>& models) {
    auto list = nlohmann::json::array();
    for (const auto& model : models) {
      nlohmann::json entry = {{"model", model.file}};
      const auto add = [&](const char* key, double value) {
        if (!std::isnan(value)) entry[key] = value;
      };
      const auto add_text = [&](const char* key, const std::string& value) {
        if (!value.empty()) entry[key] = value;
      };
      add_text("from", model.from);
      add_text("made_by", model.made_by);
      add_text("metric", model.metric);
      add("accuracy", model.accuracy);
      add("parameters", model.parameters);
      add("nonzero", model.nonzero);
      add("macs", model.macs);
      if (!model.macs_at.starts_with("record ")) add_text("macs_at", model.macs_at);
      add("bytes", model.weights);
      add("file_bytes", model.bytes);
      add("median_seconds", model.latency);
      add("onnxruntime_median_seconds", model.peer_latency);
      add("attribution_similarity", model.similarity);
      list.push_back(std::move(entry));
    }
    return list;
  }

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
  std::string pdf_;
  bool open_ = false;
  std::string plots_;
  std::string title_ = "pare report";
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace pare::cli
