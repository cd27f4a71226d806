// SIGINT and SIGTERM. Without a watch they end the program as usual, after the temporary files of
// write_file_atomically are gone. With one they only set a flag, so that a long command can store its state first; a
// second signal ends the program at once.
//
// Safe from any thread; a watch belongs to the process.
#pragma once

namespace pare {

// For programs: installs the handlers. A library user who does not call it keeps their own.
void handle_interrupts();

// While one lives, interrupts set the flag.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const;
};

// The path of a file to remove when a signal ends the program; it must stay alive until forgotten.
void remove_when_killed(const char* path);
void forget_when_killed(const char* path);

}  // namespace pare
