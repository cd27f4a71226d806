#include "pare/data/cifar.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "pare/core/file.h"
#include "pare/data/image_rows.h"
#include "pare/data/parallel.h"
#include "pare/error.h"

namespace pare {

namespace {

constexpr int64_t cifar_pixels = 3 * 32 * 32;

void check_counts(const at::Tensor& images, const at::Tensor& labels, const std::string& where) {
  if (images.size(0) != labels.size(0))
    throw Error(ErrorKind::format, where, "{} labels for {} images", labels.size(0), images.size(0));
}

}  // namespace

LabelledImages decode_cifar_binary(std::span<const std::byte> bytes, std::string_view where, int64_t label_bytes) {
  const int64_t record = label_bytes + cifar_pixels;
  const auto size = static_cast<int64_t>(bytes.size());
  if (size == 0 || size % record != 0)
    throw Error(ErrorKind::format, std::string(where), "{} bytes are not a number of records of {} bytes", size,
                record);
  const int64_t count = size / record;
  LabelledImages out{at::empty({count, 3, 32, 32}, at::kByte), at::empty({count}, at::kLong)};
  auto* images = out.images.data_ptr<uint8_t>();
  auto* labels = out.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto* image = bytes.data() + i * record + label_bytes;
    labels[i] = static_cast<int64_t>(image[-1]);
    std::memcpy(images + i * cifar_pixels, image, cifar_pixels);
  }
  return out;
}

at::Tensor decode_png_packing(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels) {
  if (!is_png(bytes)) throw Error(ErrorKind::format, std::string(where), "not a PNG");
  const auto rows = open_png(bytes, where, max_pixels);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(rows->width))));
  if (side * side != rows->width)
    throw Error(ErrorKind::format, std::string(where), "rows of {} pixels are not square images", rows->width);
  const int64_t channels = rows->channels, plane = rows->width;
  auto images = at::empty({rows->height, channels, side, side}, at::kByte);
  auto* out = images.data_ptr<uint8_t>();
  rows->read([&](int64_t y, const uint8_t* pixels) {
    uint8_t* image = out + y * channels * plane;
    if (channels == 1) {
      std::memcpy(image, pixels, static_cast<size_t>(plane));
    } else {
      for (int64_t x = 0; x < plane; ++x, pixels += 3) {
        image[x] = pixels[0];
        image[plane + x] = pixels[1];
        image[2 * plane + x] = pixels[2];
      }
    }
  });
  return images;
}

at::Tensor decode_json_labels(std::string_view json, std::string_view where) {
  const auto values = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!values.is_array()) throw Error(ErrorKind::format, std::string(where), "expected a JSON array of labels");
  auto labels = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  auto* out = labels.data_ptr<int64_t>();
  for (const auto& value : values) {
    if (!value.is_number_integer())
      throw Error(ErrorKind::format, std::string(where), "label {} is not a whole number",
                  out - labels.data_ptr<int64_t>());
    *out++ = value.get<int64_t>();
  }
  return labels;
}

LabelledImages read_cifar_binary(const std::vector<std::filesystem::path>& files, int64_t limit, int64_t label_bytes) {
  std::vector<at::Tensor> images, labels;
  int64_t count = 0;
  for (const auto& path : files) {
    if (limit > 0 && count >= limit) break;
    const auto file = MappedFile::open(path);
    auto batch = decode_cifar_binary(file->bytes(), path.string(), label_bytes);
    count += batch.images.size(0);
    images.push_back(std::move(batch.images));
    labels.push_back(std::move(batch.labels));
  }
  if (images.empty()) throw Error(ErrorKind::file, "CIFAR", "no files");
  return {at::cat(images), at::cat(labels)};
}

LabelledImages read_png_packing(const std::vector<std::filesystem::path>& images, const std::filesystem::path& labels,
                                int64_t limit, int threads) {
  const auto label_file = MappedFile::open(labels);
  const auto all_labels = decode_json_labels(label_file->text(), labels.string());
  std::vector<at::Tensor> parts(images.size());
  const auto decode = [&](size_t i) {
    const auto file = MappedFile::open(images[i]);
    parts[i] = decode_png_packing(file->bytes(), images[i].string());
  };
  if (limit > 0) {
    int64_t count = 0;
    size_t used = 0;
    for (; used < images.size() && count < limit; ++used) {
      decode(used);
      count += parts[used].size(0);
    }
    parts.resize(used);
  } else {
    parallel_each(images.size(), threads, decode);
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].sizes().slice(1) != parts[0].sizes().slice(1))
      throw Error(ErrorKind::format, images[i].string(), "images of {}, expected {} as in {}",
                  fmt::join(parts[i].sizes().slice(1), "x"), fmt::join(parts[0].sizes().slice(1), "x"),
                  images[0].string());
  if (parts.empty()) throw Error(ErrorKind::file, "cifar10", "no files");
  LabelledImages out{parts.size() == 1 ? parts[0] : at::cat(parts), all_labels};
  if (parts.size() < images.size()) out.labels = out.labels.slice(0, 0, out.images.size(0));
  check_counts(out.images, out.labels, labels.string());
  return out;
}

}  // namespace pare
