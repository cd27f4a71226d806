#include <algorithm>

#include "pare/error.h"
#include "pare/io/pickle.h"

namespace pare {

namespace {

constexpr size_t deepest_nesting = 200;

size_t child_count(const PickleValue& value) {
  if (const auto* list = std::get_if<PickleList>(&value)) return list->items.size();
  if (const auto* tuple = std::get_if<PickleTuple>(&value)) return tuple->items.size();
  if (const auto* dict = std::get_if<PickleDict>(&value)) return 2 * dict->items.size();
  return 0;
}

PickleId child_at(const PickleValue& value, size_t i) {
  if (const auto* list = std::get_if<PickleList>(&value)) return list->items[i];
  if (const auto* tuple = std::get_if<PickleTuple>(&value)) return tuple->items[i];
  const auto& pair = std::get<PickleDict>(value).items[i / 2];
  return i % 2 == 0 ? pair.first : pair.second;
}

}  // namespace

// Depth first over what the root reaches, each value once: heights of finished values are kept.
void check_nesting(const ByteSource& source, const PickleDocument& document) {
  constexpr uint8_t open = 255;
  static_assert(deepest_nesting < open);
  struct Visit {
    PickleId id;
    size_t next_child;
    uint8_t height;
  };
  std::vector<uint8_t> height(document.values.size(), 0);  // 0: not seen
  const auto height_of = [&](PickleId id) -> uint8_t& { return height[static_cast<uint32_t>(id)]; };
  std::vector<Visit> path = {{document.root, 0, 1}};
  height_of(document.root) = open;
  while (!path.empty()) {
    Visit& visit = path.back();
    const PickleValue& value = document[visit.id];
    if (visit.next_child == child_count(value)) {
      const Visit done = visit;
      height_of(done.id) = done.height;
      path.pop_back();
      if (!path.empty()) path.back().height = std::max<uint8_t>(path.back().height, done.height + 1);
      continue;
    }
    const PickleId child = child_at(value, visit.next_child++);
    const uint8_t known = height_of(child);
    if (known == open) throw Error(ErrorKind::format, source.name, "the pickle holds a container that holds itself");
    if (path.size() + std::max<size_t>(known, 1) > deepest_nesting)
      throw Error(ErrorKind::format, source.name, "the pickle nests values more than {} deep", deepest_nesting);
    if (known > 0) {
      visit.height = std::max<uint8_t>(visit.height, known + 1);
    } else {
      height_of(child) = open;
      path.push_back({child, 0, 1});
    }
  }
}

std::string_view kind_of(const PickleValue& value) {
  constexpr std::string_view kinds[] = {"None",   "a boolean",     "an integer", "a float",   "a string",
                                        "bytes",  "a big integer", "a list",     "a tuple",   "a dict",
                                        "a type", "an object",     "a dtype",    "a storage", "a tensor"};
  static_assert(std::size(kinds) == std::variant_size_v<PickleValue>);
  return kinds[value.index()];
}

}  // namespace pare
