#include "pare/data/csv.h"

#include "pare/error.h"

namespace pare {

namespace {

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      CsvRow row{.line = line_};
      do {
        row.cells.push_back(cell());
      } while (take(','));
      end_line();
      const bool empty = row.cells.size() == 1 && row.cells[0].empty();
      if (!empty) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  void end_line() {
    take('\r');
    take('\n');
    ++line_;
  }

  std::string cell() {
    skip_spaces();
    std::string value = take('"') ? quoted() : plain();
    if (value.find('\0') != std::string::npos)
      throw Error(ErrorKind::format, name_, "line {}: a zero byte; is it text in UTF-8?", line_);
    return value;
  }

  std::string plain() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
    size_t end = at_;
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
    return std::string(text_.substr(begin, end - begin));
  }

  std::string quoted() {
    std::string value;
    for (const int64_t begin = line_;;) {
      if (at_ == text_.size()) throw Error(ErrorKind::format, name_, "line {}: a quote that is not closed", begin);
      const char c = text_[at_++];
      if (c == '"' && !take('"')) break;
      if (c == '\n') ++line_;
      value.push_back(c);
    }
    skip_spaces();
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
      throw Error(ErrorKind::format, name_, "line {}: text after a closing quote", line_);
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name) { return CsvParser(text, name).rows(); }

}  // namespace pare
