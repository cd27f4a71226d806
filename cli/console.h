// What a command says: results on stdout, narration and progress on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pare::cli {

enum class Verbosity { quiet, normal, verbose };

// Rows of text with a heading; numbers are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A bar on a terminal (not a dumb one), from one second on; nothing elsewhere. A note is asked for only when it is
// drawn.
class Progress {
 public:
  Progress(std::string what, Verbosity verbosity);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(int64_t done, int64_t all, const std::function<std::string()>& note = {});
  void clear();  // before other text

 private:
  std::string what_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

// What a bar shows, in fewer columns than `width`.
std::string progress_line(const std::string& what, int64_t done, int64_t all, const std::string& note, double left,
                          size_t width);

// 1234567 -> "1,234,567"
std::string with_commas(int64_t number);

}  // namespace pare::cli
