#include "pare/train/tensorboard.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "pare/error.h"

namespace pare {
namespace {

namespace pb = google::protobuf;

// The part of tensorflow's event.proto and summary.proto that scalars need.
constexpr const char* kEventFile = R"(
  name: "event.proto" package: "tensorflow" syntax: "proto3"
  message_type { name: "Event"
    field { name: "wall_time" number: 1 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
    field { name: "step" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "file_version" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "summary" number: 5 type: TYPE_MESSAGE type_name: ".tensorflow.Summary" label: LABEL_OPTIONAL }
    field { name: "session_log" number: 7 type: TYPE_MESSAGE type_name: ".tensorflow.SessionLog" label: LABEL_OPTIONAL } }
  message_type { name: "SessionLog"
    field { name: "status" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
  message_type { name: "Summary"
    field { name: "value" number: 1 type: TYPE_MESSAGE type_name: ".tensorflow.Value" label: LABEL_REPEATED } }
  message_type { name: "Value"
    field { name: "tag" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "simple_value" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL } })";

// A bit at a time, from the polynomial.
uint32_t slow_crc32c(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

std::vector<std::string> records_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> records;
  uint64_t length = 0;
  while (in.read(reinterpret_cast<char*>(&length), 8)) {
    uint32_t length_crc = 0;
    uint32_t data_crc = 0;
    in.read(reinterpret_cast<char*>(&length_crc), 4);
    std::string data(length, '\0');
    in.read(data.data(), static_cast<std::streamsize>(length));
    in.read(reinterpret_cast<char*>(&data_crc), 4);
    EXPECT_TRUE(in.good());
    EXPECT_EQ(length_crc, masked(slow_crc32c(std::string(reinterpret_cast<const char*>(&length), 8))));
    EXPECT_EQ(data_crc, masked(slow_crc32c(data)));
    records.push_back(data);
  }
  return records;
}

TEST(TensorBoard, KnownChecksum) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, EventsParseBack) {
  const auto directory = std::filesystem::temp_directory_path() / "pare_events";
  std::filesystem::remove_all(directory);
  std::filesystem::path path;
  {
    EventWriter writer(directory, 40);
    writer.scalar("train/loss", 0.125, 41);
    writer.scalar("epoch/accuracy", 0.75, 1'000'000);
    writer.flush();
    path = writer.path();
  }
  EXPECT_NE(path.filename().string().find("tfevents"), std::string::npos);

  pb::FileDescriptorProto file;
  ASSERT_TRUE(pb::TextFormat::ParseFromString(kEventFile, &file));
  pb::DescriptorPool pool;
  ASSERT_NE(pool.BuildFile(file), nullptr);
  pb::DynamicMessageFactory factory;
  const auto* descriptor = pool.FindMessageTypeByName("tensorflow.Event");
  std::vector<std::string> texts;
  for (const auto& record : records_of(path)) {
    const std::unique_ptr<pb::Message> event(factory.GetPrototype(descriptor)->New());
    ASSERT_TRUE(event->ParseFromString(record));
    EXPECT_EQ(event->GetReflection()->GetUnknownFields(*event).field_count(), 0);
    EXPECT_GT(event->GetReflection()->GetDouble(*event, descriptor->FindFieldByName("wall_time")), 1e9);
    event->GetReflection()->ClearField(event.get(), descriptor->FindFieldByName("wall_time"));
    texts.push_back(event->ShortDebugString());
  }
  const std::vector<std::string> expected = {
      "file_version: \"brain.Event:2\"", "step: 40 session_log { status: 1 }",
      "step: 41 summary { value { tag: \"train/loss\" simple_value: 0.125 } }",
      "step: 1000000 summary { value { tag: \"epoch/accuracy\" simple_value: 0.75 } }"};
  EXPECT_EQ(texts, expected);
  std::filesystem::remove_all(directory);
}

TEST(TensorBoard, AnUnwritableDirectoryIsAnError) { EXPECT_THROW(EventWriter("/proc/nothing/here"), Error); }

}  // namespace
}  // namespace pare
