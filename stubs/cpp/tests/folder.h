// A folder for the segments of one test.
#ifndef MONOPATH_TESTS_FOLDER_H_
#define MONOPATH_TESTS_FOLDER_H_

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace monopath::tests {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "monopath-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace monopath::tests

#endif  // MONOPATH_TESTS_FOLDER_H_
