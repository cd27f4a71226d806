// What a command says: results on stdout, narration and progress on stderr.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pare/core/text.h"

namespace pare::cli {

enum class Verbosity { quiet, normal, verbose };

// Text of several lines, made of parts that are fit to be shown. Any other text is one part of a line: what would break
// the line is escaped.
struct Lines {
  std::string text;
};

// The only way to the terminal but for the progress bar, which moves the cursor and escapes what it shows itself: text
// from files may hold what steers a terminal (core/text.h), and leaves here escaped.
void show(std::FILE* to, std::string_view text);

// The options that a text of the library names in backticks, as flags: "needs `momentum`" is "needs --momentum".
std::string with_flags(std::string_view text);
std::vector<std::string> with_flags(const std::vector<std::string>& texts);

// The same for a format and its arguments, each of them one part of a line.
template <typename... Args>
void show_formatted(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  [[maybe_unused]] const auto fit = []<typename T>(const T& argument) -> decltype(auto) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>)
      return escape_controls(with_flags(argument));
    else
      return (argument);
  };
  const auto formatted = [&](const auto&... shown) { return fmt::vformat(format, fmt::make_format_args(shown...)); };
  show(to, formatted(fit(args)...));
}

// The width of a text on a screen: continuation bytes of UTF-8 take no column.
size_t columns(std::string_view text);

// Rows of text with a heading; numbers are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) { add(std::move(heading)); }
  void add(std::vector<std::string> row);
  Lines text() const;

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
  // The same for work in stages: each has its own bar.
  void update(const std::string& stage, int64_t done, int64_t all);
  void clear();  // before other text

 private:
  std::string what_;
  std::string stage_;
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

template <>
struct fmt::formatter<pare::cli::Lines> : fmt::formatter<fmt::string_view> {
  template <typename Context>
  auto format(const pare::cli::Lines& lines, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(lines.text, context);
  }
};
