// Search for lottery tickets: sub-networks that, trained from an early iterate with their mask fixed, match the dense
// network. Candidates are the rounds of continuous sparsification for several s_init, or of iterative magnitude
// pruning.
//
// Every training is a run of its own (workflow/run_store.h): a search that was killed goes on where it was, and several
// processes can take candidates from a queue and leave their runs for the one that collects them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pare/dist/work_queue.h"
#include "pare/workflow/sparsify.h"

namespace pare {

struct Ticket {
  std::string name;  // "s_init -0.1, round 2"
  SparsityReport sparsity;
  TensorMap masks;
  Graph early;    // the network to train, dense
  Graph trained;  // the ticket trained
  double metric = 0;
  int64_t search_epochs = 0;  // trained until its mask was known
  std::vector<std::string> notes;
};

struct TicketSearch {
  double dense = 0;  // of the dense network with the same schedule
  std::vector<Ticket> tickets;
  std::optional<size_t> sparsest_matching;  // largest sparsity with a metric not below the dense one
  std::optional<size_t> best;               // largest metric
};

// options.s_init: one search each (cs). `measure` gives what is compared, on data that was not trained on.
TicketSearch search_tickets(const Graph& graph, const Dataset& data, const SparsifyOptions& options,
                            const Trainer& trainer, const std::function<double(const Graph&)>& measure);

// Does, of the trainings of such a search, those that it gets from a queue that several workers share: `ticket_items`
// of them. Their runs are found by search_tickets.
size_t ticket_items(const SparsifyOptions& options);
void work_on_tickets(const Graph& graph, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer,
                     WorkQueue& queue);

// The ticket trained on other data: `network` is the architecture for it, which takes the ticket's tensors wherever the
// shapes agree (a classifier for other classes keeps its own).
Graph transfer_ticket(const Ticket& ticket, const Graph& network, const Dataset& data, const SparsifyOptions& options,
                      const Trainer& trainer);

// One safetensors file: masks as bits, the initial weights and the early ones.
void write_ticket(const std::filesystem::path& path, const Ticket& ticket, const Graph& initial,
                  const std::string& recipe);

}  // namespace pare
