// Small values under names that several processes share. Rank 0 holds them; the others ask it.
// Each call stands for itself; a Store may be used by several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pare/dist/place.h"

namespace pare {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;  // nothing: was never set
  // Adds to a counter that begins at 0, and returns what it is then. A counter's text is its number.
  virtual int64_t add(const std::string& key, int64_t value) = 0;
};

// Within one process.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

// Over TCP. A server listens at place.port (0: a free one, see `port`) for as long as it lives. A call that does not
// reach the server is an Error{failed}.
struct TcpStore {
  std::unique_ptr<Store> store;
  uint16_t port = 0;
};
TcpStore serve_store(const RankPlace& place);
std::unique_ptr<Store> connect_store(const RankPlace& place);

}  // namespace pare
