#include <chrono>
#include <cmath>

#include "command.h"
#include "pare/workflow/reproduce/papers.h"
#include "training.h"

namespace pare::cli {

namespace {

std::string figure(double value) { return std::isnan(value) ? "" : fmt::format("{:.4f}", value); }

class Reproduce : public Command {
 public:
  std::string_view name() const override { return "reproduce"; }
  std::string_view summary() const override { return "The papers' tables on data that is on this machine"; }

  void describe(OptionVisitor& options) override {
    std::vector<std::string> names;
    for (const auto& paper : papers()) names.emplace_back(paper.name);
    options.positional("paper", paper_, fmt::format("{} or all", fmt::join(names, ", ")));
    options_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    const auto chosen = find_papers(paper_);
    options_.runs = session.common.runs;
    options_.seed = static_cast<uint64_t>(session.common.seed);
    nlohmann::json result = {{"scale", options_.scale}, {"papers", nlohmann::json::array()}};
    for (const auto& paper : chosen) result["papers"].push_back(reproduced(session, paper));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    result["seconds"]["total"] = seconds.count();
    return result;
  }

 private:
  nlohmann::json reproduced(Session& session, const Paper& paper) {
    ReproduceOptions options = options_;
    options.on_row = [&](const TableRow& row) {
      session.say("{}: {}: {} {}\n", row.table, row.what, row.metric,
                  std::isnan(row.ours) ? row.note : figure(row.ours));
      auto event = row.json();
      event["event"] = "row";
      session.log(event);
    };
    Reproduction table(std::string(paper.name), options, trainer_with_feedback(session));
    paper.reproduce(table);
    if (paper_ != "all") session.run = table.run().path;
    print(session, paper, table.done());
    auto rows = nlohmann::json::array();
    for (const auto& row : table.done()) rows.push_back(row.json());
    return {{"paper", paper.name}, {"citation", paper.citation}, {"rows", rows}, {"run", table.run().path.string()}};
  }

  void print(Session& session, const Paper& paper, const std::vector<TableRow>& rows) const {
    session.print("{}; scale {}\n", paper.citation, options_.scale);
    for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      Table table({"what ran", "metric", "published", "ours", "difference", "note"});
      for (; end < rows.size() && rows[end].table == rows[begin].table; ++end) {
        const TableRow& row = rows[end];
        const double difference = row.difference();
        table.add({row.what, row.metric, figure(row.published), figure(row.ours),
                   std::isnan(difference) ? "" : fmt::format("{:+.4f}", difference), row.note});
      }
      session.print("\n{}\n{}", rows[begin].table, table.text());
    }
  }

  std::string paper_;
  ReproduceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_reproduce() { return std::make_unique<Reproduce>(); }

}  // namespace pare::cli
