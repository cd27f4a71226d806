// A method watched by a command: a bar on a terminal, notes as narration, the command's ranks.
#pragma once

#include "command.h"
#include "pare/observer.h"

namespace pare::cli {

class Watch : public Observer {
 public:
  Watch(Session& session, std::string what) : session_(session), bar_(std::move(what), session.common.verbosity()) {}

  void progress(std::string_view what, int64_t done, int64_t all) override {
    bar_.update(std::string(what), done, all);
  }
  void note(const std::string& text) override {
    bar_.clear();
    session_.say("note: {}\n", text);
  }
  ProcessGroup& ranks() override { return session_.ranks; }

 private:
  Session& session_;
  Progress bar_;
};

}  // namespace pare::cli
