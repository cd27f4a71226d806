// Which tickets of a search are named, and that a search which ended too early says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tickets.h"

namespace pare {
namespace {

TicketSearch chosen(double dense, const std::vector<std::pair<int64_t, double>>& kept_and_validation) {
  TicketSearch search{.dense = dense};
  for (const auto& [kept, validation] : kept_and_validation) {
    Ticket ticket;
    ticket.sparsity.masked_total = 100;
    ticket.sparsity.masked_kept = kept;
    ticket.validation = validation;
    search.tickets.push_back(ticket);
  }
  choose_tickets(search);
  return search;
}

TEST(ChosenTickets, AreTheSparsestThatMatchesAndTheBest) {
  const TicketSearch search = chosen(0.8, {{50, 0.82}, {30, 0.8}, {10, 0.7}});
  EXPECT_EQ(search.sparsest_matching, 1u);
  EXPECT_EQ(search.best, 0u);
  EXPECT_TRUE(search.notes.empty());
}

TEST(ChosenTickets, OfASearchThatWasCutAreNoLimit) {
  EXPECT_THAT(chosen(0.8, {{50, 0.82}, {30, 0.8}}).notes,
              testing::ElementsAre(testing::HasSubstr("the search was cut")));
  const TicketSearch none = chosen(0.9, {{50, 0.82}, {30, 0.8}});
  EXPECT_FALSE(none.sparsest_matching);
  EXPECT_TRUE(none.notes.empty());
}

}  // namespace
}  // namespace pare
