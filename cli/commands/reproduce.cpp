#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "command.h"
#include "experiments/reproduce/papers.h"
#include "pare/error.h"
#include "training.h"

namespace pare::cli {

namespace {

std::string figure(double value) { return std::isnan(value) ? "" : fmt::format("{:.4f}", value); }

std::string ours(const TableRow& row) {
  if (std::isnan(row.ours)) return "";
  const std::string deviation = std::isnan(row.deviation) ? "" : fmt::format(" (deviation {:.4f})", row.deviation);
  return text_of({.mean = row.ours, .error = row.error}) + deviation;
}

class Reproduce : public Command {
 public:
  std::string_view name() const override { return "reproduce"; }
  std::string_view summary() const override { return "The papers' tables on data that is on this machine"; }
  std::vector<Example> examples() const override {
    return {{"one paper's tables in minutes", "pare reproduce merging --scale toy"},
            {"which rows there are", "pare reproduce all --list"}};
  }

  bool recorded() const override { return !options_.list; }

  void describe(OptionVisitor& options) override {
    std::vector<std::string> names;
    for (const auto& paper : papers()) names.emplace_back(paper.name);
    options.positional("paper", paper_, fmt::format("{} or all", fmt::join(names, ", ")));
    options_.describe(options);
    options.heading("what is measured");
    options.field("processes", processes_,
                  "measure in this many processes at once (0: as many as --threads, at most 8)");
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    const auto chosen = find_papers(paper_);
    if (options_.fresh && options_.list)
      throw Error(ErrorKind::usage, "--fresh", "and --list contradict each other: a list measures nothing");
    options_.runs = session.common.runs;
    options_.seed = static_cast<uint64_t>(session.common.seed);
    if (options_.fresh)
      for (const auto& paper : chosen) Reproduction(std::string(paper.name), options_, {});
    options_.fresh = false;
    const std::vector<pid_t> helpers = start_helpers(session, chosen);
    nlohmann::json result = {{"scale", options_.scale}, {"papers", nlohmann::json::array()}};
    for (const auto& paper : chosen) result["papers"].push_back(reproduced(session, paper));
    for (const pid_t helper : helpers) ::waitpid(helper, nullptr, 0);
    if (!options_.tables.empty() && !any_row(result["papers"]))
      throw Error(ErrorKind::usage, "--tables", "'{}' matches no table; --list names them", options_.tables);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    result["seconds"]["total"] = seconds.count();
    return result;
  }

 private:
  static bool any_row(const nlohmann::json& papers) {
    return std::any_of(papers.begin(), papers.end(), [](const auto& paper) { return !paper["rows"].empty(); });
  }

  // Processes that measure what this one is not at. All rows come together by their files, so that a helper which is
  // lost costs no more than its part. They begin before anything is computed: threads do not survive a fork.
  std::vector<pid_t> start_helpers(Session& session, const std::vector<Paper>& chosen) {
    if (processes_ < 0 || processes_ > 64)
      throw Error(ErrorKind::usage, "--processes", "expected 0 to 64, found {}", processes_);
    const int threads = options_.threads = at::get_num_threads();
    const int64_t processes = options_.list ? 1 : processes_ > 0 ? processes_ : std::min(threads, 8);
    at::set_num_threads(static_cast<int>(std::max<int64_t>(1, threads / processes)));
    std::vector<pid_t> helpers;
    const pid_t parent = ::getpid();
    for (int64_t i = 1; i < processes; ++i) {
      const pid_t child = ::fork();
      if (child > 0) helpers.push_back(child);
      if (child != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);
      CommonOptions silent = session.common;
      silent.quiet = true;
      Session own(silent, session.ranks);
      help(own, chosen);
    }
    return helpers;
  }

  [[noreturn]] void help(Session& session, const std::vector<Paper>& chosen) const {
    try {
      for (const auto& paper : chosen)
        Reproduction(std::string(paper.name), options_, trainer_with_feedback(session)).measure_free(paper.reproduce);
    } catch (const std::exception&) {  // the first process meets it as well, and says so
      ::_exit(1);
    }
    ::_exit(0);
  }

  nlohmann::json reproduced(Session& session, const Paper& paper) {
    ReproduceOptions options = options_;
    options.on_row = [&](const TableRow& row) {
      if (options_.list) return;
      session.say("{}: {}: {} {}\n", row.table, row.what, row.metric, std::isnan(row.ours) ? row.note : ours(row));
      auto event = row.json();
      event["event"] = "row";
      session.log(event);
    };
    options.on_wait = [&](const TableRow& row) {
      session.say("{}: {}: another process is at it\n", row.table, row.what);
    };
    Reproduction table(std::string(paper.name), options, trainer_with_feedback(session));
    table.measure_all(paper.reproduce);
    // The paper's own directory has the record of all its tables.
    if (paper_ != "all" && options_.tables.empty()) session.run = table.run().path;
    print(session, paper, table.done());
    auto rows = nlohmann::json::array();
    for (const auto& row : table.done()) {
      rows.push_back(row.json());
      if (rows.back().contains("note")) rows.back()["note"] = with_flags(row.note);
    }
    return {{"paper", paper.name}, {"citation", paper.citation}, {"rows", rows}, {"run", table.run().path.string()}};
  }

  void print(Session& session, const Paper& paper, const std::vector<TableRow>& rows) const {
    session.print("{}; scale {}\n", paper.citation, options_.scale);
    for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      Table table({"what ran", "metric", "published", "ours", "difference", "note"});
      for (; end < rows.size() && rows[end].table == rows[begin].table; ++end) {
        const TableRow& row = rows[end];
        const double difference = row.difference();
        table.add({row.what, row.metric, figure(row.published), ours(row),
                   std::isnan(difference) ? "" : fmt::format("{:+.4f}", difference), row.note});
      }
      session.print("\n{}\n{}", rows[begin].table, table.text());
    }
  }

  std::string paper_;
  int64_t processes_ = 0;
  ReproduceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_reproduce() { return std::make_unique<Reproduce>(); }

}  // namespace pare::cli
