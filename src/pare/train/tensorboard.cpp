#include "pare/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "pare/error.h"

namespace pare {

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0);
      entries[i] = value;
    }
    return entries;
  }();
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

namespace {

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);  // the machines libtorch runs on are little-endian
  return bytes;
}

// Protocol-buffer fields.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(uint64_t field, uint64_t wire) { return varint(field << 3 | wire); }
std::string integer_field(uint64_t field, int64_t value) {
  return key(field, 0) + varint(static_cast<uint64_t>(value));
}
std::string double_field(uint64_t field, double value) { return key(field, 1) + little_endian(value); }
std::string float_field(uint64_t field, float value) { return key(field, 5) + little_endian(value); }
std::string bytes_field(uint64_t field, std::string_view value) {
  return key(field, 2) + varint(value.size()) + std::string(value);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// tensorflow.Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string event(int64_t step, const std::string& what) {
  return double_field(1, now()) + integer_field(2, step) + what;
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& directory, int64_t step) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  path_ = directory / fmt::format("events.out.tfevents.{:.6f}.{}.{}", now(), host.data(), ::getpid());
  errno = 0;
  out_.open(path_, std::ios::binary);
  if (!out_) throw Error(ErrorKind::file, path_.string(), "cannot be written: {}", std::strerror(errno));
  record(event(0, bytes_field(3, "brain.Event:2")));
  if (step > 0) record(event(step, bytes_field(7, integer_field(1, 1))));  // SessionLog.START
  flush();
}

void EventWriter::scalar(std::string_view tag, double value, int64_t step) {
  const std::string entry = bytes_field(1, tag) + float_field(2, static_cast<float>(value));
  record(event(step, bytes_field(5, bytes_field(1, entry))));
}

void EventWriter::record(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  out_ << length << little_endian(masked_crc(length)) << event << little_endian(masked_crc(event));
}

void EventWriter::flush() {
  out_.flush();
  if (!out_) throw Error(ErrorKind::file, path_.string(), "could not be written: {}", std::strerror(errno));
}

}  // namespace pare
