// The ticket search of Savarese, Silva, Maire 2020 beside iterative magnitude pruning: which tickets match the dense
// network, and after how many epochs of search their masks were known.
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/reproduce/ticket_subject.h"
#include "experiments/tickets.h"
#include "pare/core/file.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/line_plot.h"

namespace pare {

std::vector<SeedMean> over_seeds(uint64_t seeds, const std::function<std::vector<double>(uint64_t seed)>& measure) {
  std::vector<std::vector<double>> figures;
  for (uint64_t seed = 0; seed < seeds; ++seed) figures.push_back(measure(seed));
  return seed_means(figures);
}

TicketSubject subject_of(const Reproduction& table, const std::string& arch, const std::string& data) {
  TicketSubject subject;
  subject.plan = {.arch = arch, .data = data};
  subject.plan.training.train.batch = 64;
  subject.test = table.at_scale<int64_t>(2'000, 0, 0);
  subject.seeds = table.at_scale<uint64_t>(1, 3, 5);
  subject.ticket_seeds = table.at_scale<uint64_t>(1, 5, 5);
  return subject;
}

TicketSubject convnet(const Reproduction& table) {
  TicketSubject subject = subject_of(table, "convnet-bn", "fashion-mnist");
  subject.plan.limit = table.at_scale<int64_t>(2'560, 12'800, 60'000);
  subject.plan.training.train.epochs = table.at_scale<int64_t>(3, 8, 20);
  subject.plan.training.train.optimizer.lr = 0.1;
  subject.finetune = table.at_scale<int64_t>(1, 3, 6);
  subject.mask_rate = 10;
  return subject;
}

namespace {

// Every seed is a search of its own: at the small scale half the images make room for five.
TicketSubject searched(const Reproduction& table) {
  TicketSubject subject = convnet(table);
  subject.plan.limit = table.at_scale<int64_t>(2'560, 6'400, 60'000);
  return subject;
}

nlohmann::json curve_of(uint64_t seed, const TicketSearch& search) {
  auto candidates = nlohmann::json::array();
  for (const auto& ticket : search.tickets)
    candidates.push_back({{"ticket", ticket.name},
                          {"sparsity", ticket.sparsity.over_masked()},
                          {"validation", ticket.validation},
                          {"search_epochs", ticket.search_epochs}});
  return {{"seed", seed}, {"dense", search.dense}, {"candidates", candidates}};
}

// Accuracy of every candidate on the images held out against its sparsity, and the epochs until its mask was known, as
// tickets-METHOD.json; tickets.svg has the curves of all methods so far, of the first seed.
void save_curves(const Reproduction& table, const std::string& method, const nlohmann::json& curves) {
  const auto file = [&](const std::string& name) { return table.run().path / name; };
  write_file_atomically(file(fmt::format("tickets-{}.json", method)), [&](std::ostream& out) {
    out << nlohmann::json{{"method", method}, {"seeds", curves}}.dump(2) << "\n";
  });
  LinePlot plot{.title = "Tickets", .x = "weights removed", .y = "top-1 of the ticket, images held out", .series = {}};
  for (const char* name : {"cs", "imp", "cs-as-published"}) {
    std::ifstream in(file(fmt::format("tickets-{}.json", name)));
    const auto json = nlohmann::json::parse(in, nullptr, false);
    if (json.is_discarded()) continue;
    LineSeries series{.name = name, .x = {}, .y = {}};
    for (const auto& candidate : json.at("seeds").at(0).at("candidates")) {
      series.x.push_back(candidate.at("sparsity").get<double>());
      series.y.push_back(candidate.at("validation").get<double>());
    }
    plot.series.push_back(series);
  }
  write_file_atomically(file("tickets.svg"), [&](std::ostream& out) { out << to_svg(plot); });
}

// Where no candidate matches: nothing removed, the dense accuracy, and all epochs of the search.
void add_figures(std::vector<double>& figures, const TicketSearch& search, const std::optional<size_t>& index) {
  const Ticket* ticket = index ? &search.tickets[*index] : nullptr;
  figures.push_back(ticket != nullptr ? ticket->sparsity.over_masked() : 0);
  figures.push_back(ticket != nullptr ? *ticket->tested : *search.dense_tested);
  figures.push_back(static_cast<double>((ticket != nullptr ? *ticket : search.tickets.back()).search_epochs));
}

// One search over several seeds: the tickets that it names, and how long it took.
void search_rows(Reproduction& table, const char* what, const TicketOptions& search_options) {
  const TicketSubject subject = searched(table);
  const std::string title = "tickets: " + subject.rounds_title();
  const bool on_request = search_options.as_published && table.options().scale == "small";
  std::vector<TableRow> rows = {{.table = title, .what = fmt::format("{}: dense", what), .on_request = on_request}};
  for (const char* which : {"sparsest matching ticket", "best ticket"})
    for (const char* metric : {"sparsity", "top1", "epochs of search"})
      rows.push_back({.table = title,
                      .what = fmt::format("{}: {}", what, which),
                      .metric = metric,
                      .note = kSplits,
                      .on_request = on_request});
  table.rows(rows, [&] {
    const Dataset data = training_data(subject.plan);
    auto curves = nlohmann::json::array();
    uint64_t none = 0;
    uint64_t cut = 0;
    auto figures = over_seeds(subject.ticket_seeds, [&](uint64_t seed) {
      TrainingPlan plan = subject.plan;
      plan.seed = seed;
      TicketOptions options = search_options;
      options.search.mask_rate = subject.mask_rate;
      options.search.rewind = 1;
      options.search.training = table.training(plan);
      options.search.training.validation = kValidation;
      const Graph start = table.untrained(plan, data);
      const Dataset& test = table.data({.data = plan.data, .limit = subject.test}, start);
      const TicketSearch search = search_tickets(start, data, options, table.trainer(), &test);
      curves.push_back(curve_of(seed, search));
      none += search.sparsest_matching ? 0 : 1;
      cut += search.notes.empty() ? 0 : 1;
      std::vector<double> all = {*search.dense_tested};
      for (const auto& index : {search.sparsest_matching, search.best}) add_figures(all, search, index);
      return all;
    });
    save_curves(table, search_options.search.method + (search_options.as_published ? "-as-published" : ""), curves);
    if (none > 0)
      figures[1].note = fmt::format("none matches with {} of {} seeds: 0 removed", none, subject.ticket_seeds);
    if (cut > 0)
      figures[1].note +=
          fmt::format("{}the sparsest candidate matches with {} seeds: more may", none > 0 ? "; " : "", cut);
    return figures;
  });
}

// Iterative pruning that never goes back: each round trains on from the last.
void continued_rows(Reproduction& table) {
  const TicketSubject subject = searched(table);
  TableRow row{.table = "no rewinding: " + subject.rounds_title(),
               .what = "IMP-continued: sparsest round that matches the dense network",
               .note = kSplits,
               .on_request = table.options().scale == "small"};
  std::vector<TableRow> rows;
  for (const char* metric : {"dense", "sparsity", "top1", "epochs of search"}) {
    rows.push_back(row);
    rows.back().metric = metric;
  }
  table.rows(rows, [&] {
    const Dataset data = training_data(subject.plan);
    return over_seeds(subject.ticket_seeds, [&](uint64_t seed) {
      TrainingPlan plan = subject.plan;
      plan.seed = seed;
      SparsifyOptions options;
      options.method = "imp-continued";
      options.rounds = table.at_scale<int64_t>(3, 14, 20);
      options.training = table.training(plan);
      const DatasetParts parts = hold_out(data, kValidation, options.training.train.seed);
      const SparsifyResult result =
          sparsify(table.untrained(plan, parts.rest), false, parts.rest, options, table.trainer());
      const auto held_out = [&](const Graph& graph) {
        return metrics_of(evaluate({graph}, parts.held_out), 0).front().second;
      };
      const double wanted = held_out(*result.dense);
      const SparsifyRound* sparsest = nullptr;
      for (const auto& round : result.rounds)
        if (held_out(round.graph) >= wanted) sparsest = &round;  // each round is sparser than the last
      const DataChoice test{.data = plan.data, .limit = subject.test};
      const double dense = table.accuracy(*result.dense, test);
      if (sparsest == nullptr)
        return std::vector<double>{dense, 0, dense, static_cast<double>(result.rounds.back().epochs)};
      return std::vector<double>{dense, sparsest->sparsity.over_masked(), table.accuracy(sparsest->graph, test),
                                 static_cast<double>(sparsest->epochs)};
    });
  });
}

}  // namespace

void reproduce_ticket_search(Reproduction& table) {
  TicketOptions options;
  options.search.method = "imp";
  options.search.rounds = table.at_scale<int64_t>(3, 14, 20);
  search_rows(table, "iterative magnitude pruning", options);
  options.search.method = "cs";
  options.search.rounds = table.at_scale<int64_t>(1, 1, 5);
  options.search.s_init =
      table.at_scale<std::vector<double>>({-0.06}, {0, -0.04, -0.06}, {0, -0.02, -0.04, -0.06, -0.1});
  search_rows(table, "continuous sparsification", options);
  options.as_published = true;
  search_rows(table, "continuous sparsification, tickets as published", options);
  continued_rows(table);
}

}  // namespace pare
