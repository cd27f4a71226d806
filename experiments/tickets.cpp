#include "experiments/tickets.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pare/error.h"
#include "pare/io/safetensors.h"
#include "pare/metrics/evaluate.h"
#include "pare/sparsify/continuous.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/workflow/rewind.h"

namespace pare {

void TicketOptions::describe(OptionVisitor& options) {
  options.heading("search");
  options.field("as-published", as_published,
                "cs: train tickets as the released program does: the search's own early weights, scaled, all epochs");
  search.describe(options);
}

double TicketOptions::validation() const { return search.training.validation > 0 ? search.training.validation : 0.1; }

void TicketOptions::check() const {
  SparsifyOptions one = search;
  if (one.s_init.size() > 1) one.s_init.resize(1);
  one.check(false);
  ticket_items(*this);
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw Error(ErrorKind::usage, option, "{}", why);
  };
  refuse(search.training.validation < 0, "validation", "expected a part of the training images above 0");
  refuse(search.finetune > 0, "finetune", "tickets are trained from their early weights, not fine-tuned");
  refuse(search.training.train.patience > 0, "patience", "a ticket has the epochs that the dense network has left");
  refuse(as_published && search.method != "cs", "as-published", "only tickets of cs have a released form of their own");
}

namespace {

Graph train_under(const EarlyIterate& early, const TensorMap& masks, const std::string& what, const Dataset& data,
                  const TrainingOptions& training, const Trainer& trainer) {
  FixedMask method(masks);
  const EarlyIterate begin = masked(early, masks);
  TrainingJob job{.kind = "ticket",
                  .what = what,
                  .definition = nlohmann::json{{"what", what}, {"masks", fingerprint(masks)}}.dump(),
                  .parameters = &method};
  job.start = begin.start();
  return trainer(begin.graph, data, training_from(begin, training), std::move(job)).graph;
}

// What all candidates of a search share.
class Search {
 public:
  Search(const Graph& graph, const Dataset& data, const TicketOptions& options, const Trainer& trainer)
      : initial_(graph),
        options_(options),
        parts_(hold_out(data, options.validation(), options.search.training.train.seed)),
        trainer_(trainer),
        trainer_of_search_(
            [this](const Graph& network, const Dataset& images, TrainingOptions training, TrainingJob job) {
              if (job.kind == dense_job(0).kind) training.fresh = false;  // it is the search's own, made once
              return trainer_(network, images, training, std::move(job));
            }) {
    options_.search.training.validation = 0;     // the part is held out already, and chooses tickets, not epochs
    options_.search.keep_search_weights = true;  // so that both kinds of tickets share the search
  }

  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  TrainingOutcome train_dense() const {
    return trainer_(initial_, parts_.rest, options_.search.training, dense_job(options_.search.rewind));
  }

  // The tickets of one start, trained.
  std::vector<Ticket> tickets_from(double start) const {
    SparsifyOptions own = options_.search;
    const bool cs = own.method == "cs";
    if (cs) own.s_init = {start};
    const SparsifyResult found = sparsify(initial_, false, parts_.rest, own, trainer_of_search_);
    const EarlyIterate early = early_of(found);
    std::vector<Ticket> tickets;
    for (const auto& round : found.rounds) {
      Ticket ticket{.name = cs ? fmt::format("s_init {}, {}", start, round.name) : round.name,
                    .sparsity = round.sparsity,
                    .masks = round.masks,
                    .early = early.graph,
                    .search_epochs = round.epochs,
                    .notes = found.notes};
      if (options_.as_published) ticket.name += ", as published";
      // A round of iterative pruning is trained from the early iterate already.
      ticket.trained =
          cs ? train_under(early, round.masks, "ticket", parts_.rest, own.training, trainer_) : round.graph;
      if (!cs) ticket.search_epochs -= own.training.train.epochs - own.rewind;
      tickets.push_back(std::move(ticket));
    }
    return tickets;
  }

  double validation_of(const Graph& graph) const { return metric_of(graph, parts_.held_out); }

  static double metric_of(const Graph& graph, const Dataset& data) {
    return metrics_of(evaluate({graph}, data), 0).front().second;
  }

 private:
  EarlyIterate early_of(const SparsifyResult& found) const {
    if (options_.as_published) return {.graph = found.scaled_early};
    const int64_t rewind = options_.search.rewind;
    return early_iterate(
        initial_, trainer_of_search_(initial_, parts_.rest, options_.search.training, dense_job(rewind)), rewind);
  }

  Graph initial_;
  TicketOptions options_;
  DatasetParts parts_;
  const Trainer& trainer_;
  Trainer trainer_of_search_;
};

std::vector<double> starts_of(const SparsifyOptions& options) {
  if (options.method != "cs" && options.method != "imp")
    throw Error(ErrorKind::usage, OptionName{"method"}, "tickets are searched by cs or imp, not by {}", options.method);
  if (options.method == "imp") return {0};
  return options.s_init.empty() ? std::vector<double>{ContinuousOptions{}.s_init} : options.s_init;
}

}  // namespace

void choose_tickets(TicketSearch& search) {
  for (size_t i = 0; i < search.tickets.size(); ++i) {
    const Ticket& ticket = search.tickets[i];
    if (!search.best || ticket.validation > search.tickets[*search.best].validation) search.best = i;
    if (ticket.validation >= search.dense &&
        (!search.sparsest_matching ||
         ticket.sparsity.over_masked() > search.tickets[*search.sparsest_matching].sparsity.over_masked()))
      search.sparsest_matching = i;
  }
  if (!search.sparsest_matching) return;
  const auto sparser = [&](const Ticket& ticket) {
    return ticket.sparsity.over_masked() > search.tickets[*search.sparsest_matching].sparsity.over_masked();
  };
  if (std::none_of(search.tickets.begin(), search.tickets.end(), sparser))
    search.notes.push_back(
        "the sparsest candidate matches: the search was cut, more `rounds` or a lower `s-init` may match too");
}

size_t ticket_items(const TicketOptions& options) { return 1 + starts_of(options.search).size(); }

void work_on_tickets(const Graph& graph, const Dataset& data, const TicketOptions& options, const Trainer& trainer,
                     WorkQueue& queue) {
  const auto starts = starts_of(options.search);
  const Search search(graph, data, options, trainer);
  while (const auto item = queue.claim()) {
    if (*item == 0)
      search.train_dense();
    else
      search.tickets_from(starts.at(*item - 1));
    queue.done(*item);
  }
}

TicketSearch search_tickets(const Graph& graph, const Dataset& data, const TicketOptions& options,
                            const Trainer& trainer, const Dataset* test) {
  const Search search(graph, data, options, trainer);
  const Graph dense = search.train_dense().graph;
  TicketSearch result;
  result.dense = search.validation_of(dense);
  for (const double start : starts_of(options.search))
    for (auto& ticket : search.tickets_from(start)) {
      ticket.validation = search.validation_of(ticket.trained);
      result.tickets.push_back(std::move(ticket));
    }
  choose_tickets(result);
  if (test == nullptr) return result;
  result.dense_tested = Search::metric_of(dense, *test);
  for (const auto& index : {result.sparsest_matching, result.best})
    if (index && !result.tickets[*index].tested)
      result.tickets[*index].tested = Search::metric_of(result.tickets[*index].trained, *test);
  return result;
}

Graph transfer_ticket(const Ticket& ticket, const Graph& network, const Dataset& data, const TicketOptions& options,
                      const Trainer& trainer) {
  Graph early = network;
  TensorMap masks;
  for (auto& [name, tensor] : early.tensors) {
    const auto from = ticket.early.tensors.find(name);
    if (from == ticket.early.tensors.end() || from->second.sizes() != tensor.sizes()) continue;
    tensor = from->second;
    if (const auto mask = ticket.masks.find(name); mask != ticket.masks.end()) masks[name] = mask->second;
  }
  if (masks.size() != ticket.masks.size())
    throw Error(ErrorKind::shape, OptionName{"transfer"}, "{} of {} masked tensors have other shapes for this data",
                ticket.masks.size() - masks.size(), ticket.masks.size());
  TrainingOptions training = options.search.training;
  training.validation = 0;
  return train_under({.graph = early}, masks, "transfer", data, training, trainer);
}

void write_ticket(const std::filesystem::path& path, const Ticket& ticket, const Graph& initial,
                  const std::string& recipe) {
  NamedTensors content = packed_masks({.masks = ticket.masks, .recipe = recipe});
  for (auto& entry : content.tensors) entry.first = "mask/" + entry.first;
  for (const auto& [name, tensor] : initial.tensors) content.tensors.emplace_back("initial/" + name, tensor);
  for (const auto& [name, tensor] : ticket.early.tensors) content.tensors.emplace_back("early/" + name, tensor);
  write_safetensors(path, content);
}

}  // namespace pare
