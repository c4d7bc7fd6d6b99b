// Short ways to the configs and items that most streams need. Everything else is in the generated messages.
#ifndef MONOPATH_ITEMS_H_
#define MONOPATH_ITEMS_H_

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "monopath/paths.h"

namespace monopath {

// The config of a stream: a preset of the server, by its name, such as "kimi-k3".
template <typename Path>
typename Path::Config preset_config(std::string preset, v1::DataType data_type = v1::DATA_TYPE_FLOAT32,
                                    v1::ResultOrder order = v1::RESULT_ORDER_AS_COMPLETED) {
  typename Path::Config config;
  config.mutable_processor()->mutable_preset()->set_name(std::move(preset));
  config.mutable_output()->set_data_type(data_type);
  config.mutable_output()->set_order(order);
  return config;
}

// An item of a deferred path: the bytes of an image file. The label comes back with the result.
template <typename Path>
typename Path::Item image_bytes(std::string file, std::string label = "") {
  static_assert(!std::is_same_v<Path, Local>, "Expected a path that takes images, got the one of finished features");
  typename Path::Item item;
  item.set_label(std::move(label));
  item.mutable_image()->mutable_encoded()->set_data(std::move(file));
  return item;
}

// An item of a deferred path: an image file, read now and labelled with its name. Throws std::system_error where it
// cannot be read.
template <typename Path>
typename Path::Item image_file(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad() || std::filesystem::is_directory(file)) {
    const int code = std::filesystem::is_directory(file) ? EISDIR : errno != 0 ? errno : EIO;
    throw std::system_error(code, std::generic_category(), file.string());
  }
  return image_bytes<Path>(std::move(bytes), file.string());
}

// An item of a deferred path: decoded pixels, 8 bits a channel, lines top to bottom without gaps.
template <typename Path>
typename Path::Item raw_pixels(std::string pixels, std::uint32_t width_px, std::uint32_t height_px,
                               v1::PixelFormat format, std::string label = "") {
  static_assert(!std::is_same_v<Path, Local>, "Expected a path that takes images, got the one of finished features");
  typename Path::Item item;
  item.set_label(std::move(label));
  v1::RawPixels& raw = *item.mutable_image()->mutable_pixels();
  raw.set_width_px(width_px);
  raw.set_height_px(height_px);
  raw.set_format(format);
  raw.set_data(std::move(pixels));
  return item;
}

// An item of the path Local: finished features of an image with this plan, little-endian and row-major. The plan is the
// caller's own, or one of the unary call `Plan`; its tensor has the features' element type.
inline LocalFeaturesItem local_features(const v1::ImagePlan& plan, std::string features, std::string label = "") {
  LocalFeaturesItem item;
  v1::LocalItem& announcement = item.announcement;
  announcement.set_label(std::move(label));
  *announcement.mutable_original_size() = plan.original_size();
  *announcement.mutable_grid_thw() = plan.grid_thw();
  announcement.set_token_count(plan.token_count());
  *announcement.mutable_features() = plan.features();
  if (plan.has_tile_grid()) *announcement.mutable_tile_grid() = plan.tile_grid();
  item.features = std::move(features);
  return item;
}

}  // namespace monopath

#endif  // MONOPATH_ITEMS_H_
