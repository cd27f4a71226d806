// Search for lottery tickets: sub-networks that, trained from an early iterate with their mask fixed, match the dense
// network (workflow/rewind.h). Candidates are the rounds of continuous sparsification for several s_init, or of
// iterative magnitude pruning. All of them begin with the same iterate of the same dense run and have its remaining
// epochs.
//
// A part of the training images is held out and chooses: nothing is trained on it. The test images are looked at once,
// for the dense network and for the tickets that were chosen.
//
// Every training is a run of its own (train/run_store.h): a search that was killed goes on where it was, and several
// processes can take candidates from a queue and leave their runs for the one that collects them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pare/dist/work_queue.h"
#include "pare/workflow/sparsify.h"

namespace pare {

struct TicketOptions {
  SparsifyOptions search;  // search.s_init: one search each (cs)
  // cs: tickets as the released program trains them, with the search's own early weights times 1/σ(s_init) and all
  // epochs. They have a head start over the dense network.
  bool as_published = false;

  void describe(OptionVisitor& options);
  void check() const;         // Error{usage}
  double validation() const;  // part of the training images that chooses
};

struct Ticket {
  std::string name;  // "s_init -0.1, round 2"
  SparsityReport sparsity;
  TensorMap masks;
  Graph early;                   // the network to train, dense
  Graph trained;                 // the ticket trained
  double validation = 0;         // its metric on the images held out
  std::optional<double> tested;  // on the test images, of the tickets that were chosen
  int64_t search_epochs = 0;     // trained until its mask was known
  std::vector<std::string> notes;
};

struct TicketSearch {
  double dense = 0;  // of the dense network with the same schedule, on the images held out
  std::optional<double> dense_tested;
  std::vector<Ticket> tickets;
  std::optional<size_t> sparsest_matching;  // largest sparsity with a metric not below the dense one
  std::optional<size_t> best;               // largest metric
  std::vector<std::string> notes;
};

// `test`: where the chosen are measured; null: nowhere.
TicketSearch search_tickets(const Graph& graph, const Dataset& data, const TicketOptions& options,
                            const Trainer& trainer, const Dataset* test);

// Names the sparsest ticket that matches and the best one, by what they have on the images held out; a note where the
// search ended before tickets stopped to match.
void choose_tickets(TicketSearch& search);

// Does, of the trainings of such a search, those that it gets from a queue that several workers share: `ticket_items`
// of them. Their runs are found by search_tickets.
size_t ticket_items(const TicketOptions& options);
void work_on_tickets(const Graph& graph, const Dataset& data, const TicketOptions& options, const Trainer& trainer,
                     WorkQueue& queue);

// The ticket trained on other data: `network` is the architecture for it, which takes the ticket's tensors wherever the
// shapes agree (a classifier for other classes keeps its own). All epochs: this data has no dense run to go on from.
Graph transfer_ticket(const Ticket& ticket, const Graph& network, const Dataset& data, const TicketOptions& options,
                      const Trainer& trainer);

// One safetensors file: masks as bits, the initial weights and the early ones.
void write_ticket(const std::filesystem::path& path, const Ticket& ticket, const Graph& initial,
                  const std::string& recipe);

}  // namespace pare
