#include "pare/io/pickle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "pare/io/pickle_globals.h"
#include "pare/io/pickle_text.h"

namespace pare {

namespace {

constexpr uint64_t pickle_slack = 32ull << 20;

// The machine. Its methods are named after what the opcodes of Python's pickletools do.
class Unpickler {
 public:
  explicit Unpickler(ByteReader& reader)
      : reader_(reader), builder_{reader.source(), pickle_slack}, credited_(reader.position()) {}

  PickleDocument run() {
    while (true) {
      builder_.position = reader_.position();
      const auto opcode = reader_.number<uint8_t>("a pickle");
      credit();
      builder_.charge(12);  // a place on the stack, which may double
      if (opcode == '.') break;
      if (!push_scalar(opcode) && !push_text(opcode) && !build_container(opcode) && !use_memo(opcode) &&
          !use_global(opcode))
        builder_.fail("the opcode {:#04x} is not one that checkpoints use", opcode);
    }
    builder_.document.root = pop();
    return std::move(builder_.document);
  }

 private:
  // Numbers and constants.
  bool push_scalar(uint8_t opcode) {
    switch (opcode) {
      case 'N': push(PickleNone{}); return true;
      case 0x88: push(true); return true;
      case 0x89: push(false); return true;
      case 'K': push(int64_t{reader_.number<uint8_t>("an integer")}); return true;
      case 'M': push(int64_t{reader_.number<uint16_t>("an integer")}); return true;
      case 'J': push(int64_t{reader_.number<int32_t>("an integer")}); return true;
      case 'G': push(std::bit_cast<double>(__builtin_bswap64(reader_.number<uint64_t>("a float")))); return true;
      case 0x8a: push_long(reader_.number<uint8_t>("an integer's length")); return true;
      case 0x8b: push_long(reader_.number<uint32_t>("an integer's length")); return true;
      case 'I': push_integer_line(reader_.line("an integer")); return true;
      case 'L': {
        std::string_view line = reader_.line("an integer");
        if (line.ends_with('L')) line.remove_suffix(1);
        push_integer_line(line);
        return true;
      }
      case 'F': {
        const std::optional<double> value = parse_real(reader_.line("a float"));
        if (!value) builder_.fail("expected a number");
        push(*value);
        return true;
      }
      default: return false;
    }
  }
  void push_integer_line(std::string_view line) {
    if (line == "00" || line == "01") return push(line == "01");
    const std::optional<int64_t> value = parse_integer(line);
    if (!value) builder_.fail("expected an integer of 64 bits, found '{}'", printable(line));
    push(*value);
  }
  void push_long(uint64_t length) {
    if (length > 255) builder_.fail("an integer of {} bytes, expected at most 255", length);
    const std::string_view bytes = reader_.text(length, "an integer");
    if (length > 8) return push(PickleLong{std::string(bytes)}, length);
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push(static_cast<int64_t>(value));
  }

  // Strings and bytes. Their lengths are bounded by what is left of the file.
  bool push_text(uint8_t opcode) {
    switch (opcode) {
      case 'X': push_utf8(reader_.number<uint32_t>("a string's length")); return true;
      case 0x8c: push_utf8(reader_.number<uint8_t>("a string's length")); return true;
      case 0x8d: push_utf8(reader_.number<uint64_t>("a string's length")); return true;
      case 'U': push_python2(reader_.text(reader_.number<uint8_t>("a string's length"), "a string")); return true;
      case 'T': push_python2(reader_.text(reader_.number<uint32_t>("a string's length"), "a string")); return true;
      case 'C': push_bytes(reader_.number<uint8_t>("a length")); return true;
      case 'B': push_bytes(reader_.number<uint32_t>("a length")); return true;
      case 0x8e:
      case 0x96: push_bytes(reader_.number<uint64_t>("a length")); return true;
      case 'S': {
        const std::optional<std::string> text = unquote(reader_.line("a string"));
        if (!text) builder_.fail("expected a quoted string");
        push_python2(*text);
        return true;
      }
      case 'V': {
        const std::string_view line = reader_.line("a string");
        credit();
        builder_.charge(line.size());  // as UTF-8 it may be twice as long
        std::optional<std::string> text = decode_raw_unicode(line);
        if (!text) builder_.fail("expected a string of unicode escapes");
        const size_t length = text->size();
        push(std::move(*text), length);
        return true;
      }
      default: return false;
    }
  }
  void push_utf8(uint64_t length) {
    const std::string_view text = reader_.text(length, "a string");
    if (!is_utf8(text)) builder_.fail("a string is not UTF-8: '{}'", printable(text));
    push(std::string(text), length);
  }
  // Python 2 wrote text and bytes alike.
  void push_python2(std::string_view text) {
    if (is_utf8(text)) return push(std::string(text), text.size());
    push(PickleBytes{std::string(text)}, text.size());
  }
  void push_bytes(uint64_t length) { push(PickleBytes{std::string(reader_.text(length, "bytes"))}, length); }

  // Lists, tuples, dicts and the stack itself.
  bool build_container(uint8_t opcode) {
    switch (opcode) {
      case '(':
        builder_.charge(12);
        marks_.push_back(stack_.size());
        return true;
      case '0': pop(); return true;
      case '1': take_marked(); return true;
      case '2': stack_.push_back(top()); return true;
      case ']':
      case 0x8f: push(PickleList{}); return true;
      case ')': push(PickleTuple{}); return true;
      case '}': push(PickleDict{}); return true;
      case 'l':
      case 0x91: push(PickleList{take_marked()}); return true;
      case 't': push(PickleTuple{take_marked()}); return true;
      case 0x85:
      case 0x86:
      case 0x87: push(PickleTuple{take(opcode - size_t{0x84})}); return true;
      case 'd': {
        const std::vector<PickleId> items = take_marked();
        push(PickleDict{});
        set_items(items);
        return true;
      }
      case 'a': extend(take(1)); return true;
      case 'e':
      case 0x90: extend(take_marked()); return true;
      case 's': set_items(take(2)); return true;
      case 'u': set_items(take_marked()); return true;
      default: return false;
    }
  }
  void extend(const std::vector<PickleId>& items) {
    auto* list = std::get_if<PickleList>(&builder_.document[top()]);
    if (list == nullptr) builder_.fail("expected a list to append to, found {}", kind_of(builder_.document[top()]));
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<PickleId>& items) {
    auto* dict = std::get_if<PickleDict>(&builder_.document[top()]);
    if (dict == nullptr) builder_.fail("expected a dict to fill, found {}", kind_of(builder_.document[top()]));
    if (items.size() % 2 != 0) builder_.fail("expected a value for each key");
    for (size_t i = 0; i < items.size(); i += 2) dict->items.emplace_back(items[i], items[i + 1]);
  }

  // The memo, and the opcodes about the stream itself.
  bool use_memo(uint8_t opcode) {
    switch (opcode) {
      case 'p': remember(memo_line()); return true;
      case 'q': remember(reader_.number<uint8_t>("a memo index")); return true;
      case 'r': remember(reader_.number<uint32_t>("a memo index")); return true;
      case 0x94: remember(memo_.size()); return true;
      case 'g': recall(memo_line()); return true;
      case 'h': recall(reader_.number<uint8_t>("a memo index")); return true;
      case 'j': recall(reader_.number<uint32_t>("a memo index")); return true;
      case 0x95: reader_.number<uint64_t>("a frame's length"); return true;
      case 0x80: {
        const auto protocol = reader_.number<uint8_t>("the protocol");
        if (protocol > 5)
          throw Error(ErrorKind::unsupported, reader_.source().name, "is pickle protocol {}, expected 0 to 5",
                      protocol);
        return true;
      }
      default: return false;
    }
  }
  uint64_t memo_line() {
    const std::optional<int64_t> index = parse_integer(reader_.line("a memo index"));
    if (!index || *index < 0) builder_.fail("expected a memo index");
    return static_cast<uint64_t>(*index);
  }
  void remember(uint64_t index) {
    builder_.charge(64);
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) builder_.fail("the memo holds nothing at {}", index);
    stack_.push_back(found->second);
  }

  // Everything that would import or call in Python.
  bool use_global(uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string_view module = reader_.line("a global's module");
        const std::string_view name = reader_.line("a global's name");
        push(PickleGlobal{&find_global(builder_, module, name)});
        return true;
      }
      case 0x93: {
        const std::vector<PickleId> names = take(2);
        const auto* module = builder_.document.get<std::string>(names[0]);
        const auto* name = builder_.document.get<std::string>(names[1]);
        if (module == nullptr || name == nullptr) builder_.fail("expected the module and the name of a global");
        push(PickleGlobal{&find_global(builder_, *module, *name)});
        return true;
      }
      case 'R':
      case 0x81: {
        const std::vector<PickleId> call = take(2);
        stack_.push_back(call_global(builder_, call[0], call[1]));
        return true;
      }
      case 0x92: {
        const std::vector<PickleId> call = take(3);
        const PickleDict* keywords = builder_.document.dict(call[2]);
        if (keywords == nullptr || !keywords->items.empty()) builder_.fail("a call with keywords is not supported");
        stack_.push_back(call_global(builder_, call[0], call[1]));
        return true;
      }
      case 'i': {
        const std::string_view module = reader_.line("a global's module");
        const std::string_view name = reader_.line("a global's name");
        const PickleId type = builder_.add(PickleGlobal{&find_global(builder_, module, name)});
        stack_.push_back(call_global(builder_, type, builder_.add(PickleTuple{take_marked()})));
        return true;
      }
      case 'o': {
        std::vector<PickleId> call = take_marked();
        if (call.empty()) builder_.fail("expected a class");
        const PickleId type = call.front();
        call.erase(call.begin());
        stack_.push_back(call_global(builder_, type, builder_.add(PickleTuple{std::move(call)})));
        return true;
      }
      case 'b': {
        const PickleId state = pop();
        set_state(builder_, top(), state);
        return true;
      }
      case 'Q': stack_.push_back(load_persistent(builder_, pop())); return true;
      default: return false;
    }
  }

  // What was read may be kept.
  void credit() {
    builder_.budget += reader_.position() - credited_;
    credited_ = reader_.position();
  }
  void push(PickleValue value, uint64_t extra_bytes = 0) {
    credit();
    stack_.push_back(builder_.add(std::move(value), extra_bytes));
  }
  // Nothing below the last mark may be used before the mark is.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  PickleId top() const {
    if (available() == 0) builder_.fail("the stack is empty");
    return stack_.back();
  }
  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }
  std::vector<PickleId> take(size_t count) {
    if (available() < count) builder_.fail("expected {} values on the stack, found {}", count, available());
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<PickleId> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  std::vector<PickleId> take_marked() {
    if (marks_.empty()) builder_.fail("expected a mark on the stack");
    std::vector<PickleId> items = take(available());
    marks_.pop_back();
    return items;
  }

  ByteReader& reader_;
  PickleBuilder builder_;
  uint64_t credited_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleId> memo_;
};

}  // namespace

PickleDocument unpickle(ByteReader& reader) {
  PickleDocument document = Unpickler(reader).run();
  check_nesting(reader.source(), document);
  return document;
}

}  // namespace pare
