#include "pare/dist/place.h"

#include <gtest/gtest.h>

#include <map>

#include "pare/error.h"

namespace pare {
namespace {

RankPlace place_of(const std::map<std::string, std::string>& variables) {
  return place_from([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(RankPlace, AloneWithoutVariables) {
  EXPECT_EQ(place_of({}).size, 1);
  EXPECT_EQ(place_of({{"WORLD_SIZE", "4"}}).size, 1);  // a size without a rank
  EXPECT_EQ(place_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(RankPlace, AsTorchrunSaysIt) {
  const RankPlace place = place_of({{"RANK", "3"},
                                    {"WORLD_SIZE", "8"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "node7"},
                                    {"MASTER_PORT", "1234"}});
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 8);
  EXPECT_EQ(place.local_size, 2);
  EXPECT_EQ(place.address, "node7");
  EXPECT_EQ(place.port, 1234);
}

TEST(RankPlace, AsMpiSaysIt) {
  const RankPlace open = place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"MASTER_ADDR", "node0"}});
  EXPECT_EQ(open.rank, 1);
  EXPECT_EQ(open.local_size, 2);
  EXPECT_EQ(open.port, 29500);
  const RankPlace mpich = place_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "node0"}});
  EXPECT_EQ(mpich.rank, 0);
  EXPECT_EQ(mpich.size, 2);
}

TEST(RankPlace, WhatMakesNoSenseIsNamed) {
  const std::map<std::string, std::string> good = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(place_of(good).rank, 1);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"RANK", "2"},
                                                                      {"WORLD_SIZE", "two"},
                                                                      {"WORLD_SIZE", "0"},
                                                                      {"RANK", "-1"},
                                                                      {"RANK", "1x"},
                                                                      {"MASTER_PORT", "70000"},
                                                                      {"MASTER_ADDR", ""}}) {
    auto bad = good;
    bad[name] = value;
    try {
      place_of(bad);
      FAIL() << name << "=" << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.where(), name);
    }
  }
}

}  // namespace
}  // namespace pare
