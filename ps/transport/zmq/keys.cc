#include "ps/transport/zmq/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

constexpr std::size_t text_size = 40, key_size = 32;

std::string path_of(const std::string& folder, const std::string& name, const char* part) {
  return fmt::format("{}/{}.{}", folder, name, part);
}

/// An open file, if `number` is not negative.
struct File {
  explicit File(int number) : number(number) {}
  ~File() {
    if (number >= 0) close(number);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number;
};

std::string read_key(const std::string& path, bool secret) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number < 0)
    throw Error("cannot read the key {}: {}; `ringside keys` writes such files", path,
                std::strerror(errno));
  struct stat state {};
  if (fstat(file.number, &state) != 0 || !S_ISREG(state.st_mode))
    throw Error("cannot read the key {}: it is no file", path);
  if (state.st_uid != geteuid() && state.st_uid != 0)
    throw Error(
        "the key {} belongs to user {}, who could write another key there; copy it to a folder of "
        "your own",
        path, state.st_uid);
  if ((state.st_mode & 022) != 0)
    throw Error(
        "the key {} can be written by other users (mode {:03o}); if it is still yours, `chmod {}` "
        "it, else make new keys",
        path, state.st_mode & 0777, secret ? "600" : "644");
  if (secret && (state.st_mode & 077) != 0)
    throw Error(
        "the key {} is not secret: other users may open it (mode {:03o}); if nobody has read it, "
        "`chmod 600` it, else make new keys",
        path, state.st_mode & 0777);
  std::array<char, text_size + 2> text{};
  const ssize_t size = read(file.number, text.data(), text.size());
  std::string key(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  if (key.ends_with('\n')) key.pop_back();
  std::array<std::uint8_t, key_size> bytes{};
  if (key.size() != text_size || !zmq_z85_decode(bytes.data(), key.c_str()))
    throw Error("{} is no key: a key has {} characters of Z85", path, text_size);
  return key;
}

/// Lets nobody but this user look into a folder that is there already, and exchange keys in it.
void close_to_others(const std::string& folder) {
  constexpr mode_t others = 0077;
  const File opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat there {};
  if (opened.number < 0 || fstat(opened.number, &there) != 0)
    throw Error("cannot open the folder {}: {}", folder, std::strerror(errno));
  if (there.st_uid != geteuid())
    throw Error("the folder {} is another user's, who could exchange the keys; name another folder",
                folder);
  if ((there.st_mode & others) == 0) return;
  if (!std::filesystem::is_empty(folder))
    throw Error(
        "others may look into the folder {} (mode {:o}), and it is not empty; say `chmod 700 {}`, "
        "or name a new folder",
        folder, there.st_mode & 07777, folder);
  if (fchmod(opened.number, 0700) != 0)
    throw Error("cannot close the folder {} to others: {}", folder, std::strerror(errno));
}

/// The files, and perhaps the folder, that are removed again unless all could be written.
class Written {
 public:
  explicit Written(const std::string& folder)
      : folder_(folder), made_(mkdir(folder.c_str(), 0700) == 0) {
    if (!made_ && errno != EEXIST)
      throw Error("cannot make the folder {}: {}", folder, std::strerror(errno));
    if (!made_) close_to_others(folder);
  }
  ~Written() {
    if (complete_) return;
    for (const std::string& path : paths_) unlink(path.c_str());
    if (made_) rmdir(folder_.c_str());
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  void add(const std::string& path, const std::string& key);
  void complete() { complete_ = true; }

 private:
  std::string folder_;
  bool made_, complete_ = false;
  std::vector<std::string> paths_;
};

void Written::add(const std::string& path, const std::string& key) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = key + '\n';
  if (file.number >= 0) paths_.push_back(path);
  if (file.number < 0 || write(file.number, line.data(), line.size()) != std::ssize(line) ||
      fsync(file.number) != 0)
    throw Error("cannot write the key {}: {}", path, std::strerror(errno));
}

/// The 32 bytes of a key's text.
std::string bytes_of_key(const std::string& text) {
  std::string bytes(key_size, '\0');
  if (!zmq_z85_decode(reinterpret_cast<std::uint8_t*>(bytes.data()), text.c_str()))
    throw Error("\"{}\" is no key", text);
  return bytes;
}

KeyPair draw_pair() {
  std::array<char, text_size + 1> public_key{}, secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    throw Error("this ZeroMQ has no CURVE ({}); install one that is built with it",
                zmq_strerror(zmq_errno()));
  return {public_key.data(), secret_key.data()};
}

}  // namespace

std::string worker_key(int worker) { return fmt::format("worker-{}", worker); }

void write_keys(const std::string& folder, int workers) {
  Written files(folder);
  std::vector<std::string> names{server_key};
  for (int worker = 0; worker < workers; ++worker) names.push_back(worker_key(worker));
  for (const std::string& name : names)
    for (const char* part : {"secret", "public"})
      if (const std::string path = path_of(folder, name, part); access(path.c_str(), F_OK) == 0)
        throw Error("{} is there already, and keys are not overwritten; name another folder", path);
  for (const std::string& name : names) {
    const KeyPair pair = draw_pair();
    files.add(path_of(folder, name, "secret"), pair.secret_key);
    files.add(path_of(folder, name, "public"), pair.public_key);
  }
  files.complete();
}

std::string draw_keys(int workers) {
  std::string text;
  for (int key = 0; key <= workers; ++key) {
    const KeyPair pair = draw_pair();
    text += fmt::format("{} {}\n", pair.public_key, pair.secret_key);
  }
  return text;
}

Keyring::Keyring(const std::string& folder, const std::string& drawn) : folder_(folder) {
  std::istringstream lines(drawn);
  for (KeyPair pair; lines >> pair.public_key >> pair.secret_key;) drawn_.push_back(pair);
}

KeyPair Keyring::pair(const std::string& name) const {
  if (drawn_.empty()) return read_key_pair(folder_, name);
  for (std::size_t worker = 0; worker + 1 < drawn_.size(); ++worker)
    if (name == worker_key(static_cast<int>(worker))) return drawn_[worker + 1];
  if (name != server_key) throw Error("no key was drawn for {}", name);
  return drawn_.front();
}

std::string Keyring::public_key(const std::string& name) const {
  return drawn_.empty() ? read_public_key(folder_, name) : pair(name).public_key;
}

std::map<std::string, int> Keyring::members(int workers, bool servers) const {
  if (drawn_.empty()) return read_members(folder_, workers, servers);
  std::map<std::string, int> members;
  for (int worker = 0; worker < workers; ++worker)
    members.emplace(bytes_of_key(public_key(worker_key(worker))), worker);
  if (servers) members.emplace(bytes_of_key(public_key(server_key)), workers);
  return members;
}

KeyPair read_key_pair(const std::string& folder, const std::string& name) {
  KeyPair pair{read_public_key(folder, name), read_key(path_of(folder, name, "secret"), true)};
  std::array<char, text_size + 1> own{};
  if (zmq_curve_public(own.data(), pair.secret_key.c_str()) != 0 || pair.public_key != own.data())
    throw Error(
        "the keys {} and {} are no pair, and nobody would admit their holder; copy both from the "
        "same call of `ringside keys`",
        path_of(folder, name, "public"), path_of(folder, name, "secret"));
  return pair;
}

std::string read_public_key(const std::string& folder, const std::string& name) {
  return read_key(path_of(folder, name, "public"), false);
}

std::map<std::string, int> read_members(const std::string& folder, int workers, bool servers) {
  std::map<std::string, int> members;
  const auto add = [&](const std::string& name, int member) {
    const auto [other, is_new] =
        members.emplace(bytes_of_key(read_public_key(folder, name)), member);
    if (!is_new)
      throw Error("{}: {} and {} have the same key; make new keys with `ringside keys`", folder,
                  worker_key(other->second), name);
  };
  for (int worker = 0; worker < workers; ++worker) add(worker_key(worker), worker);
  if (servers) add(server_key, workers);
  return members;
}

}  // namespace ringside::ps
