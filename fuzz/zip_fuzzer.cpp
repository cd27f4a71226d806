// Any bytes as a zip archive and as a PyTorch checkpoint in one: a result or an Error, nothing else.
// A CRC would stop nearly every mutation, so a pickle that fails it is also tried alone.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pare/error.h"
#include "pare/io/checkpoint.h"
#include "pare/io/pickle.h"
#include "pare/io/zip.h"

namespace {

void unpickle_entries(const pare::ByteSource& source) {
  const pare::ZipArchive archive(source);
  for (const pare::ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with("data.pkl")) continue;
    pare::ByteReader reader(source, entry.offset, entry.offset + entry.size);
    pare::unpickle(reader);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const pare::ByteSource source = pare::ByteSource::copy({reinterpret_cast<const char*>(data), size}, "fuzz");
  try {
    pare::parse_zip_checkpoint(source);
  } catch (const pare::Error&) {
  }
  try {
    unpickle_entries(source);
  } catch (const pare::Error&) {
  }
  return 0;
}
