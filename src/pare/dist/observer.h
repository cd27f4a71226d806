// Who watches a method at work: hears how far it is and what is worth knowing, may stop it, and says with whom it
// shares the samples. One object instead of callbacks in every struct of options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pare/core/error.h"
#include "pare/dist/process_group.h"

namespace pare {

// The one given by default watches nothing. A method calls from one thread at a time.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void progress(std::string_view /*what*/, int64_t /*done*/, int64_t /*all*/) {}
  virtual void note(const std::string& /*text*/) {}
  virtual bool cancelled() { return false; }
  virtual ProcessGroup& ranks() { return alone(); }

  // Reports, and throws Error{interrupted} when cancelled.
  void step(std::string_view what, int64_t done, int64_t all) {
    if (cancelled()) throw Error(ErrorKind::interrupted, std::string(what), "stopped after {} of {}", done, all);
    progress(what, done, all);
  }
};

}  // namespace pare
