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

}  // namespace

TicketSearch search_tickets(const Graph& graph, const Dataset& data, const SparsifyOptions& options,
                            const Trainer& trainer, const std::function<double(const Graph&)>& measure,
                            const TicketPart& part) {
  if (options.method != "cs" && options.method != "imp")
    throw Error(ErrorKind::usage, "--method", "tickets are searched by cs or imp, not by {}", options.method);
  std::vector<double> starts = options.s_init;
  if (options.method == "imp") starts = {0};
  if (starts.empty()) starts = {ContinuousOptions{}.s_init};
  TicketSearch search;
  const bool collects = part.of == 1;
  if (part.index == 0) {
    TrainingJob job{.kind = "ticket", .what = "dense", .definition = R"({"what":"dense"})"};
    const Graph dense = trainer(graph, data, options.training, std::move(job)).graph;
    if (collects) search.dense = measure(dense);
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    if (static_cast<int64_t>(i) % part.of != part.index) continue;
    SparsifyOptions own = options;
    own.finetune = 0;
    if (options.method == "cs") own.s_init = {starts[i]};
    const SparsifyResult found = sparsify(graph, false, data, own, trainer);
    for (const auto& round : found.rounds) {
      Ticket ticket{.name = options.method == "cs" ? fmt::format("s_init {}, {}", starts[i], round.name) : round.name,
                    .sparsity = round.sparsity,
                    .masks = round.masks,
                    .early = found.early,
                    .search_epochs = round.epochs,
                    .notes = found.notes};
      // A round of iterative pruning is trained from the early weights already.
      ticket.trained = options.method == "imp"
                           ? round.graph
                           : train_masked(found.early, round.masks, "ticket", data, options, trainer);
      if (options.method == "imp") ticket.search_epochs -= options.training.train.epochs - options.rewind;
      if (collects) ticket.metric = measure(ticket.trained);
      search.tickets.push_back(std::move(ticket));
    }
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
