// A store for processes that share only a folder.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/comm/store.h"

namespace ringside::testing {

/// A file for each key. The maker of the folder removes it.
class FileStore : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) override {
    const std::filesystem::path whole = file(key);
    const std::string part = whole.string() + "." + std::to_string(getpid());
    std::ofstream(part, std::ios::binary) << value;
    std::filesystem::rename(part, whole);  // readers see all of it or nothing
  }
  std::string get(const std::string& key, double timeout_s) override {
    const timespec nap{0, 200'000};
    for (const double end = seconds_now() + timeout_s;; nanosleep(&nap, nullptr)) {
      if (auto value = try_get(key)) return std::move(*value);
      if (seconds_now() > end)
        throw Error("store: key '{}' was not set within {} s", key, timeout_s);
    }
  }
  std::optional<std::string> try_get(const std::string& key) override {
    std::ifstream in(file(key), std::ios::binary);
    if (!in) return {};
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

 private:
  std::filesystem::path file(std::string key) const {
    for (char& c : key)
      if (c == '/') c = '_';
    return folder_ / key;
  }

  std::filesystem::path folder_;
};

/// A new folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ringside-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error("no folder can be made in {}", name);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ringside::testing
