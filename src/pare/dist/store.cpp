#include "pare/dist/store.h"

namespace pare {

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
}

std::optional<std::string> MemoryStore::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

int64_t MemoryStore::add(const std::string& key, int64_t value) {
  const std::lock_guard lock(mutex_);
  std::string& text = values_[key];
  const int64_t sum = (text.empty() ? 0 : std::stoll(text)) + value;
  text = std::to_string(sum);
  return sum;
}

}  // namespace pare
