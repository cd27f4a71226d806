#include "pare/workflow/benchmark.h"

#include <gtest/gtest.h>

namespace pare {
namespace {

// A run right after another one's is slow here, whoever's it is.
TEST(Benchmark, WhatRanBeforeIsNotInTheTimes) {
  int last = -1;
  const auto run_of = [&](int which, double seconds) {
    return [&last, which, seconds] {
      const double taken = last == which ? seconds : 10 * seconds;
      last = which;
      return taken;
    };
  };
  const auto latencies = benchmark({run_of(0, 1), run_of(1, 1), run_of(2, 0.5)}, {.rounds = 7, .seconds = 60});
  ASSERT_EQ(latencies.size(), 3u);
  for (const Latency& latency : latencies) EXPECT_EQ(latency.rounds, 7);
  EXPECT_EQ(latencies[0].median, 1);
  EXPECT_EQ(latencies[0].p99, latencies[1].p99);
  EXPECT_EQ(latencies[2].p10, 0.5);
  EXPECT_EQ(latencies[2].p99, 0.5);
}

// Threads of what ran before spin on for five milliseconds here, and slow down what runs meanwhile.
TEST(Benchmark, ShortRunsAreTimedWhenOthersHaveComeToRest) {
  int last = -1;
  double since = 0;
  const auto run_of = [&](int which, double seconds) {
    return [&, which, seconds] {
      if (last != which) last = which, since = 0;
      const double taken = since < 0.005 ? 2 * seconds : seconds;
      since += taken;
      return taken;
    };
  };
  const auto latencies = benchmark({run_of(0, 0.001), run_of(1, 0.0005)}, {.rounds = 5, .seconds = 60});
  EXPECT_EQ(latencies[0].p99, 0.001);
  EXPECT_EQ(latencies[1].p99, 0.0005);
}

}  // namespace
}  // namespace pare
