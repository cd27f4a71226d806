#include "pare/data/xml.h"

#include <algorithm>
#include <charconv>

#include "pare/error.h"

namespace pare {

namespace {

constexpr size_t kDeepest = 64;
constexpr size_t kLongestText = 1 << 20;

bool is_xml_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_xml_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':' || (c & 0x80) != 0;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto byte = [&](uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0 | code >> 6), byte(0x80 | (code & 63));
  if (code < 0x10000) return byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
  byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
}

class XmlReader {
 public:
  using Element = std::function<void(const std::vector<std::string>& path, const std::string& text)>;

  XmlReader(std::string_view xml, std::string_view where, const Element& element)
      : xml_(xml), where_(where), element_(element) {}

  void read() {
    take("\xEF\xBB\xBF");  // a byte order mark
    while (at_ < xml_.size()) {
      if (xml_[at_] != '<')
        read_text();
      else if (take("<?"))
        skip_to("?>");
      else if (take("<!--"))
        skip_to(R"(-->)");
      else if (take("<![CDATA["))
        add(skip_to("]]>"));
      else if (take("<!"))
        skip_declaration();
      else if (take("</"))
        read_end();
      else
        read_start();
    }
    if (!path_.empty()) fail("ends inside the element '{}'", path_.back());
    if (!had_root_) fail("holds no element");
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::format, std::string(where_), "not an XML document: at byte {}: {}", at_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  bool take(std::string_view text) {
    if (!xml_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  std::string_view skip_to(std::string_view end) {
    const size_t found = xml_.find(end, at_);
    if (found == std::string_view::npos) fail("'{}' is missing", end);
    const auto between = xml_.substr(at_, found - at_);
    at_ = found + end.size();
    return between;
  }

  void skip_declaration() {
    if (skip_to(">").find('[') != std::string_view::npos) fail("a document type with a body is not read");
  }

  void skip_space() {
    while (at_ < xml_.size() && is_xml_space(xml_[at_])) ++at_;
  }

  std::string_view read_name() {
    const size_t begin = at_;
    while (at_ < xml_.size() && is_xml_name(xml_[at_])) ++at_;
    if (at_ == begin) fail("a name is missing");
    return xml_.substr(begin, at_ - begin);
  }

  void read_start() {
    ++at_;  // '<'
    if (path_.empty() && had_root_) fail("a second root element");
    if (path_.size() == kDeepest) fail("elements are nested deeper than {}", kDeepest);
    had_root_ = true;
    path_.emplace_back(read_name());
    texts_.emplace_back();
    skip_space();
    while (at_ < xml_.size() && xml_[at_] != '>' && xml_[at_] != '/') {
      read_name();
      skip_space();
      if (!take("=")) fail("an attribute without a value");
      skip_space();
      if (!take("\"") && !take("'")) fail("an attribute's value is not quoted");
      skip_to(xml_.substr(at_ - 1, 1));
      skip_space();
    }
    if (take("/>")) return end_element();
    if (!take(">")) fail("a tag is not closed");
  }

  void read_end() {
    const auto name = read_name();
    skip_space();
    if (!take(">")) fail("a tag is not closed");
    if (path_.empty() || path_.back() != name)
      fail("'{}' ends inside '{}'", name, path_.empty() ? std::string("nothing") : path_.back());
    end_element();
  }

  void end_element() {
    element_(path_, texts_.back());
    path_.pop_back();
    texts_.pop_back();
  }

  void add(std::string_view text) {
    if (path_.empty()) {
      if (!std::all_of(text.begin(), text.end(), is_xml_space)) fail("text outside the root element");
      return;
    }
    if (texts_.back().size() + text.size() > kLongestText) fail("an element holds too much text");
    texts_.back() += text;
  }

  void read_text() {
    const size_t end = std::min(xml_.find_first_of("<&", at_), xml_.size());
    add(xml_.substr(at_, end - at_));
    at_ = end;
    if (at_ < xml_.size() && xml_[at_] == '&') add(read_entity());
  }

  std::string read_entity() {
    ++at_;  // '&'
    const auto name = xml_.substr(at_, std::min<size_t>(12, xml_.size() - at_));
    const size_t end = name.find(';');
    if (end == std::string_view::npos) fail("an entity is not closed");
    at_ += end + 1;
    const auto entity = name.substr(0, end);
    if (entity == "lt") return "<";
    if (entity == "gt") return ">";
    if (entity == "amp") return "&";
    if (entity == "quot") return "\"";
    if (entity == "apos") return "'";
    const bool hexadecimal = entity.starts_with("#x");
    const auto digits = entity.substr(std::min<size_t>(hexadecimal ? 2 : 1, entity.size()));
    uint32_t code = 0;
    const auto [last, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, hexadecimal ? 16 : 10);
    if (!entity.starts_with("#") || failed != std::errc() || last != digits.data() + digits.size() || code == 0 ||
        code > 0x10FFFF)
      fail("unknown entity '&{};'", entity);
    std::string text;
    append_utf8(text, code);
    return text;
  }

  std::string_view xml_;
  std::string_view where_;
  const Element& element_;
  size_t at_ = 0;
  bool had_root_ = false;
  std::vector<std::string> path_;
  std::vector<std::string> texts_;  // of each element on the path
};

}  // namespace

void parse_xml(std::string_view xml, std::string_view where,
               const std::function<void(const std::vector<std::string>& path, const std::string& text)>& element) {
  XmlReader(xml, where, element).read();
}

}  // namespace pare
