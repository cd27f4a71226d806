#include "console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace pare::cli {

std::string with_flags(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::string shown;
  while (true) {
    const size_t open = text.find('`');
    if (open == std::string_view::npos) return shown += text;
    const size_t close = text.find_first_not_of(kLetters, open + 1);
    const bool option = close != std::string_view::npos && text[close] == '`' && close > open + 1;
    shown += text.substr(0, open);
    shown += option ? "--" : "`";
    if (option) shown += text.substr(open + 1, close - open - 1);
    text.remove_prefix(option ? close + 1 : open + 1);
  }
}

std::vector<std::string> with_flags(const std::vector<std::string>& texts) {
  std::vector<std::string> shown;
  for (const auto& text : texts) shown.push_back(with_flags(text));
  return shown;
}

namespace {

// Nothing counts as a number: a figure that is missing does not turn its column round.
bool is_number(const std::string& text) { return text.find_first_not_of("0123456789.,+-%xe× ") == std::string::npos; }

}  // namespace

size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void show(std::FILE* to, std::string_view text) {
  const std::string shown = escape_controls(text, LineEnds::keep);
  std::fwrite(shown.data(), 1, shown.size(), to);
}

void Table::add(std::vector<std::string> row) {
  for (auto& cell : row) cell = escape_controls(cell);
  rows_.push_back(with_flags(row));
}

Lines Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], columns(row[i]));
    }
  std::vector<bool> right(widths.size(), rows_.size() > 1);
  for (size_t r = 1; r < rows_.size(); ++r)
    for (size_t i = 0; i < rows_[r].size(); ++i) right[i] = right[i] && is_number(rows_[r][i]);
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string padding(widths[i] - columns(rows_[r][i]), ' ');
      if (i > 0) line += "  ";
      line += right[i] ? padding + rows_[r][i] : rows_[r][i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      size_t total = 2 * (widths.empty() ? 0 : widths.size() - 1);
      for (const size_t width : widths) total += width;
      text += std::string(total, '-') + "\n";
    }
  }
  return {text};
}

namespace {

// A terminal that can go back to the start of a line and clear it.
bool draws_bars() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(const std::string& what, int64_t done, int64_t all, const std::string& note, double left,
                          size_t width) {
  std::string rest = fmt::format(" {}/{}{}{}  {:.0f} s left", done, all, note.empty() ? "" : "  ", note, left);
  // The bar takes what is left of a line, and goes where that is too little; a line that is full would wrap.
  const size_t taken = columns(what) + columns(rest) + 4;
  const size_t bar = taken + 5 < width ? std::min<size_t>(30, width - taken) : 0;
  const auto filled =
      static_cast<size_t>(static_cast<double>(bar) * static_cast<double>(done) / static_cast<double>(all));
  std::string line = what;
  if (bar > 0) line += " [" + std::string(filled, '#') + std::string(bar - filled, '.') + "]";
  line += rest;
  while (columns(line) >= width) line.pop_back();
  return line;
}

Progress::Progress(std::string what, Verbosity verbosity)
    : what_(escape_controls(what)),
      enabled_(verbosity != Verbosity::quiet && draws_bars()),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void Progress::update(int64_t done, int64_t all, const std::function<std::string()>& note) {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (!enabled_ || elapsed < 1.0 || now - last_ < std::chrono::milliseconds(100) || done <= 0 || all <= 0) return;
  last_ = now;
  shown_ = true;
  const double left = elapsed / static_cast<double>(done) * static_cast<double>(all - done);
  fmt::print(stderr, "\r{}\033[K",
             progress_line(what_, done, all, note ? escape_controls(note()) : "", left, terminal_columns()));
  std::fflush(stderr);
}

void Progress::update(const std::string& stage, int64_t done, int64_t all) {
  if (stage != stage_) {
    clear();
    what_ = stage_ = escape_controls(stage);
    start_ = std::chrono::steady_clock::now();
  }
  update(done, all);
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace pare::cli
