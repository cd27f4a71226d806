#include "pare/dist/place.h"

#include <charconv>
#include <cstdlib>

#include "pare/error.h"

namespace pare {

namespace {

struct Convention {
  const char* rank;
  const char* size;
  const char* local_size;
};
constexpr Convention kConventions[] = {{"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
                                       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}};

int number(const Environment& environment, const char* name, int least, int most) {
  const auto text = environment(name);
  if (!text) throw Error(ErrorKind::usage, name, "is not set");
  int value = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed != std::errc() || end != text->data() + text->size() || value < least || value > most)
    throw Error(ErrorKind::usage, name, "expected a number from {} to {}, found {}", least, most, *text);
  return value;
}

}  // namespace

RankPlace place_from(const Environment& environment) {
  constexpr int kMost = 1 << 20;
  RankPlace place;
  for (const auto& names : kConventions) {
    // A size alone is none: some launchers export it to everything below them.
    if (!environment(names.rank) || !environment(names.size)) continue;
    place.size = number(environment, names.size, 1, kMost);
    place.rank = number(environment, names.rank, 0, place.size - 1);
    if (environment(names.local_size)) place.local_size = number(environment, names.local_size, 1, place.size);
    break;
  }
  if (place.size == 1) return place;
  const auto address = environment("MASTER_ADDR");
  if (!address || address->empty())
    throw Error(ErrorKind::usage, "MASTER_ADDR", "is not set; with {} processes it names the host of rank 0",
                place.size);
  place.address = *address;
  if (environment("MASTER_PORT")) place.port = static_cast<uint16_t>(number(environment, "MASTER_PORT", 1, 65535));
  return place;
}

RankPlace place_from_environment() {
  return place_from([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace pare
