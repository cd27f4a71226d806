#include "pare/io/npy.h"

#include "io/io_support.h"

namespace pare {
namespace {

std::string npy_bytes(const std::string& header, const std::string& data, char version = 1) {
  const std::string length = version == 1 ? raw(static_cast<uint16_t>(header.size())) : raw(uint32_t(header.size()));
  return "\x93NUMPY" + std::string{version, '\0'} + length + header + data;
}

at::Tensor parse_npy_text(const std::string& header, const std::string& data = "", char version = 1) {
  return parse_npy(ByteSource::copy(npy_bytes(header, data, version), "test.npy"));
}

TEST(Npy, ReadsWhatNumpyWrote) {
  const at::Tensor c_order = read_npy(golden("io/c_order.npy"));
  EXPECT_EQ(c_order.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(values_of<float>(c_order), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const at::Tensor fortran = read_npy(golden("io/fortran_order.npy"));
  EXPECT_EQ(fortran.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(fortran.strides(), at::IntArrayRef({1, 2}));
  EXPECT_EQ(values_of<int64_t>(fortran), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  expect_error(ErrorKind::unsupported, "'>f4'", [] { read_npy(golden("io/big_endian.npy")); });
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const auto path = temporary_file("c_order.npy");
  write_npy(path, at::arange(6, at::kFloat).reshape({2, 3}));
  EXPECT_EQ(text_of_file(path), text_of_file(golden("io/c_order.npy")));
  std::filesystem::remove(path);
}

TEST(Npy, RoundTripsEveryDtypeAndShape) {
  const auto path = temporary_file("round.npy");
  for (const auto type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kFloat, at::kDouble})
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {3}, {2, 3}, {0, 2}, {1, 1, 4}}) {
      const at::Tensor tensor = at::randn(shape).gt(0).to(type);
      write_npy(path, tensor);
      const at::Tensor read = read_npy(path);
      EXPECT_EQ(read.scalar_type(), type);
      EXPECT_EQ(read.sizes(), tensor.sizes());
      EXPECT_TRUE(at::equal(read, tensor));
    }
  std::filesystem::remove(path);
  expect_error(ErrorKind::unsupported, "BFloat16", [&] { write_npy(path, at::zeros({1}, at::kBFloat16)); });
}

TEST(Npy, ReadsVersion2AndOtherSpellings) {
  EXPECT_EQ(values_of<int8_t>(parse_npy_text("{\"shape\":(2L,),'descr':'i1','fortran_order':True}", "\1\2", 2)),
            (std::vector<int8_t>{1, 2}));
}

TEST(Npy, RefusesMalformedFiles) {
  const auto refused = [](ErrorKind kind, std::string_view part, const std::string& header,
                          const std::string& data = "") {
    expect_error(kind, part, [&] { parse_npy_text(header, data); });
  };
  refused(ErrorKind::format, "needs 8 bytes", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234567");
  refused(ErrorKind::format, "needs 8 bytes", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "123456789");
  refused(ErrorKind::format, "a dict of descr", "{'descr': '<f4'}");
  refused(ErrorKind::format, "once", "{'descr': '<f4', 'descr': '<f4'}");
  refused(ErrorKind::format, "a dimension from 0", "{'shape': (-1,)}");
  refused(ErrorKind::format, "a dimension from 0", "{'shape': (9223372036854775808,)}");
  refused(ErrorKind::format, "2^63", "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}");
  refused(ErrorKind::format, "True or False", "{'fortran_order': 1}");
  refused(
      ErrorKind::format, "dimensions",
      "{'descr':'|u1','fortran_order':False,'shape':(" +
          [] {
            std::string s;
            for (int i = 0; i < 99; ++i) s += "1,";
            return s;
          }() +
          ")}",
      "x");
  refused(ErrorKind::format, "found 2", "{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\2");
  refused(ErrorKind::unsupported, "pickled objects", "{'descr': '|O', 'fortran_order': False, 'shape': ()}");
  refused(ErrorKind::unsupported, "structured", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}");
  expect_error(ErrorKind::format, "begin with", [] { parse_npy(ByteSource::copy("NUMPY", "x")); });
  expect_error(ErrorKind::unsupported, "version 9.0", [] { parse_npy_text("{}", "", 9); });
}

TEST(Npy, SurvivesDamage) {
  expect_robust(npy_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}\n", raw(1.0f) + raw(2.0f)),
                parse_npy);
}

}  // namespace
}  // namespace pare
