// What the tables of sparsification and of the ticket search share: networks, and how something is chosen and measured.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "experiments/reproduce/reproduce.h"

namespace pare {

// A network, its data, and how long it trains: some epochs, then fine-tuning with the mask fixed.
struct TicketSubject {
  TrainingPlan plan;
  int64_t finetune = 0;
  double finetune_lr = 0.01;
  int64_t test = 0;
  uint64_t seeds = 1;
  uint64_t ticket_seeds = 1;
  double mask_rate = 20;    // times the learning rate
  bool on_request = false;  // as in TableRow

  std::string title() const {
    return fmt::format("{}, {} images of {}, {} + {} epochs, {} seeds{}", plan.arch, plan.limit, plan.data,
                       plan.training.train.epochs, finetune, seeds, test_images_text(test));
  }
  // Of searches that train in rounds.
  std::string rounds_title() const {
    return fmt::format("{}, {} images of {}, {} epochs a round, {} seeds{}", plan.arch, plan.limit, plan.data,
                       plan.training.train.epochs, ticket_seeds, test_images_text(test));
  }
};

// Of the training images, the same of every class: what chooses among settings and candidates. The test images measure
// what was chosen.
constexpr double kValidation = 0.1;
inline constexpr const char* kSplits = "chosen on 10 % of the training images held out, measured on the test images";

// Of each of the figures that `measure` gives.
std::vector<SeedMean> over_seeds(uint64_t seeds, const std::function<std::vector<double>(uint64_t seed)>& measure);

// The part that every subject of a table has.
TicketSubject subject_of(const Reproduction& table, const std::string& arch, const std::string& data);
TicketSubject convnet(const Reproduction& table);

// The tables of the ticket search.
void reproduce_ticket_search(Reproduction& table);

}  // namespace pare
