#include "pare/workflow/tickets.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "pare/core/error.h"
#include "pare/io/safetensors.h"
#include "pare/sparsify/fixed_mask.h"

namespace pare {

namespace {

Graph train_masked(const Graph& early, const TensorMap& masks, const std::string& what, const Dataset& data,
                   const SparsifyOptions& options, const Trainer& trainer) {
  FixedMask method(masks);
  TrainingJob job{.kind = "ticket",
                  .what = what,
                  .definition = nlohmann::json{{"what", what}, {"masks", fingerprint(masks)}}.dump(),
                  .parameters = &method};
  return trainer(masked(early, masks), data, options.training, std::move(job)).graph;
}

Graph train_dense(const Graph& graph, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer) {
  TrainingJob job{.kind = "ticket", .what = "dense", .definition = R"({"what":"dense"})"};
  return trainer(graph, data, options.training, std::move(job)).graph;
}

std::vector<double> starts_of(const SparsifyOptions& options) {
  if (options.method != "cs" && options.method != "imp")
    throw Error(ErrorKind::usage, "--method", "tickets are searched by cs or imp, not by {}", options.method);
  if (options.method == "imp") return {0};
  return options.s_init.empty() ? std::vector<double>{ContinuousOptions{}.s_init} : options.s_init;
}

// The tickets of one search, trained.
std::vector<Ticket> search_from(double start, const Graph& graph, const Dataset& data, const SparsifyOptions& options,
                                const Trainer& trainer) {
  SparsifyOptions own = options;
  own.finetune = 0;
  if (options.method == "cs") own.s_init = {start};
  const SparsifyResult found = sparsify(graph, false, data, own, trainer);
  std::vector<Ticket> tickets;
  for (const auto& round : found.rounds) {
    Ticket ticket{.name = options.method == "cs" ? fmt::format("s_init {}, {}", start, round.name) : round.name,
                  .sparsity = round.sparsity,
                  .masks = round.masks,
                  .early = found.early,
                  .search_epochs = round.epochs,
                  .notes = found.notes};
    // A round of iterative pruning is trained from the early weights already.
    ticket.trained = options.method == "imp" ? round.graph
                                             : train_masked(found.early, round.masks, "ticket", data, options, trainer);
    if (options.method == "imp") ticket.search_epochs -= options.training.train.epochs - options.rewind;
    tickets.push_back(std::move(ticket));
  }
  return tickets;
}

}  // namespace

size_t ticket_items(const SparsifyOptions& options) { return 1 + starts_of(options).size(); }

void work_on_tickets(const Graph& graph, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer,
                     WorkQueue& queue) {
  const auto starts = starts_of(options);
  while (const auto item = queue.claim()) {
    if (*item == 0)
      train_dense(graph, data, options, trainer);
    else
      search_from(starts.at(*item - 1), graph, data, options, trainer);
    queue.done(*item);
  }
}

TicketSearch search_tickets(const Graph& graph, const Dataset& data, const SparsifyOptions& options,
                            const Trainer& trainer, const std::function<double(const Graph&)>& measure) {
  const auto starts = starts_of(options);
  TicketSearch search;
  search.dense = measure(train_dense(graph, data, options, trainer));
  for (const double start : starts)
    for (auto& ticket : search_from(start, graph, data, options, trainer)) {
      ticket.metric = measure(ticket.trained);
      search.tickets.push_back(std::move(ticket));
    }
  for (size_t i = 0; i < search.tickets.size(); ++i) {
    const Ticket& ticket = search.tickets[i];
    if (!search.best || ticket.metric > search.tickets[*search.best].metric) search.best = i;
    if (ticket.metric >= search.dense &&
        (!search.sparsest_matching ||
         ticket.sparsity.over_masked() > search.tickets[*search.sparsest_matching].sparsity.over_masked()))
      search.sparsest_matching = i;
  }
  return search;
}

Graph transfer_ticket(const Ticket& ticket, const Graph& network, const Dataset& data, const SparsifyOptions& options,
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
    throw Error(ErrorKind::shape, "--transfer", "{} of {} masked tensors have other shapes for this data",
                ticket.masks.size() - masks.size(), ticket.masks.size());
  return train_masked(early, masks, "transfer", data, options, trainer);
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
